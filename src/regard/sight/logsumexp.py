"""The log-sum-exp of a forward pass. Torch's fused kernels find it for their backward, so that nobody need do it twice."""

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from regard.sight.kernels.backend import within_reach

_aten = torch.ops.aten
# Kernels whose second answer it is, and where the argument stands that asks for it, if it must be asked for.
_TELLING: dict[Any, int | None] = {
    _aten._scaled_dot_product_cudnn_attention.default: 4,
    _aten._scaled_dot_product_efficient_attention.default: 4,
    _aten._scaled_dot_product_flash_attention.default: None,
}


class LogSumExpCapture(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is entered, `level` is what the latest fused kernel says: log Σ exp(score) of each query, or None."""

    level: Tensor | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Ask along, where a kernel wants to be asked."""
        if func not in _TELLING:
            return func(*args, **(kwargs or {}))
        asked = _TELLING[func]
        if asked is not None:
            args = (*args[:asked], True, *args[asked + 1 :])
        found = func(*args, **(kwargs or {}))
        self.level = found[1]
        return found

    def of(self, query: Tensor) -> Tensor | None:
        """The level of these queries, [..., queries]; None if no kernel told."""
        shape, level = query.shape[:-1], self.level
        if level is None:
            return None
        level = level.detach()
        if level.ndim == query.ndim and level.shape[-1] == 1:
            level = level.squeeze(-1)
        if level.shape[:-1] != shape[:-1] or level.shape[-1] < shape[-1]:
            return None
        return level[..., : shape[-1]]  # some fill up to a whole tile


def capture_useful(query: Tensor) -> bool:
    """Whether evidence of such a query could make use of it."""
    return query.ndim == 4 and within_reach(query)


def computed_anyway(*parts: Tensor) -> bool:
    """Whether kernels tell it unasked: a backward pass will want it."""
    return torch.is_grad_enabled() and any(part.requires_grad for part in parts)
