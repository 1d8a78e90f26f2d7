"""Captures the log-sum-exp that torch's fused kernels compute in the forward pass for their backward."""

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from regard.sight.kernels.backend import within_reach

_aten = torch.ops.aten
# Operators whose second output it is, and the index of the argument that requests it, if there is one.
_OPERATORS: dict[Any, int | None] = {
    _aten._scaled_dot_product_cudnn_attention.default: 4,
    _aten._scaled_dot_product_efficient_attention.default: 4,
    _aten._scaled_dot_product_flash_attention.default: None,
}


class LogSumExpCapture(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While entered, `level` is log Σ exp(score) of each query from the latest fused kernel, or None."""

    level: Tensor | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Request the log-sum-exp from the operators that compute it on request."""
        if func not in _OPERATORS:
            return func(*args, **(kwargs or {}))
        at = _OPERATORS[func]
        if at is not None:
            args = (*args[:at], True, *args[at + 1 :])
        found = func(*args, **(kwargs or {}))
        self.level = found[1]
        return found

    def of(self, query: Tensor) -> Tensor | None:
        """The log-sum-exp of these queries, [..., queries]; None if no kernel computed it."""
        shape, level = query.shape[:-1], self.level
        if level is None:
            return None
        level = level.detach()
        if level.ndim == query.ndim and level.shape[-1] == 1:
            level = level.squeeze(-1)
        if level.shape[:-1] != shape[:-1] or level.shape[-1] < shape[-1]:
            return None
        return level[..., : shape[-1]]  # some kernels pad to a whole tile


def capture_useful(query: Tensor) -> bool:
    """Whether evidence of such a query could make use of the log-sum-exp."""
    return query.ndim == 4 and within_reach(query)


def computed_anyway(*parts: Tensor) -> bool:
    """Whether the forward pass computes it in any case, for a backward pass."""
    return torch.is_grad_enabled() and any(part.requires_grad for part in parts)
