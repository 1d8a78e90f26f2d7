"""What modules optimised for inference have in common: they refuse gradients and training."""

import torch
from torch import Tensor, nn

from regard.errors import RegardError


def refuse_gradients(module: nn.Module, *inputs: Tensor) -> None:
    """Raise where a module that gives no gradients is in training, or is given what asks for gradients."""
    if module.training:
        raise RegardError(
            f"{type(module).__name__} is optimised for inference and cannot be trained; {_INSTEAD}"
        )
    if torch.is_grad_enabled() and any(each.requires_grad for each in inputs):
        raise RegardError(
            f"{type(module).__name__} is optimised for inference and gives no gradients, but its input asks for them; "
            f"{_INSTEAD}"
        )


_INSTEAD = "use a plain model: regard.load(…, optimise=False)"
