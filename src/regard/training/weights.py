"""Weights by name: those of a model, tied ones once."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from regard.errors import RegardError


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and kept buffers by name, not copied. What is tied is there once, under its first name."""
    first: dict[int, str] = {}
    state = model.state_dict(keep_vars=True)
    return {name: x.detach() for name, x in state.items() if first.setdefault(id(x), name) == name}


@torch.no_grad()
def install(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Put weights into a model, in place. Either all fit, or nothing changes."""
    own = weights_of(model)
    if own.keys() != weights.keys():
        missing, unknown = sorted(own.keys() - weights.keys()), sorted(weights.keys() - own.keys())
        raise RegardError(f"these are another model's weights: without {missing[:5]}, with {unknown[:5]}")
    for name, mine in own.items():
        same_shape(name, mine, weights[name])
    for name, mine in own.items():
        mine.copy_(weights[name])


def same_shape(name: str, mine: Tensor, theirs: Tensor) -> None:
    """Refuse a tensor that does not fit."""
    if mine.shape != theirs.shape:
        raise RegardError(
            f"{name} is {list(mine.shape)} here and {list(theirs.shape)} in the weights given: the models differ"
        )
