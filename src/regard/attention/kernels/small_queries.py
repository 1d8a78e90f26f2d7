"""Attention of a few queries on the CPU, where torch's fused kernel loses: a C kernel, or two products and a softmax."""

from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.kernels.native import NOT_BUILT, Kernels, kernels

MAX_QUERIES = 5  # queries a head: a beam of the usual width over one source


def small_queries(
    query: Float[Tensor, "*batch q d"],
    key: Float[Tensor, "*kv_batch k d"],
    value: Float[Tensor, "*kv_batch k dv"],
    *,
    added: Float[Tensor, "... _q _k"] | None,  # 0, and −inf where a query may not look
    scale: float,
    dropout: float,
) -> Float[Tensor, "*batch q dv"]:
    """dropout(softmax(scale · QKᵀ + added)) V, for rows that may all look at something."""
    if torch_instead(query, dropout) is None:
        if torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad):
            return _SmallQueries.apply(query, key, value, added, scale)  # type: ignore[no-untyped-call]
        return _in_c(
            query, key, value, added, scale
        )  # the same kernel, without the 8 µs of recording a gradient
    weights = _weights(query, key, added, scale)
    return (F.dropout(weights, dropout) if dropout else weights) @ value


def torch_instead(query: Tensor, dropout: float) -> str | None:
    """Why torch's operations compute this and not the C kernel; None where the C kernel does.

    Gradients do not decide. Autocast and the transforms of torch.func have a meaning for torch's operations alone.
    """
    if kernels() is None:
        return NOT_BUILT
    if dropout:
        return "the C kernel has no dropout"
    if query.ndim != 4:
        return f"the C kernel takes four axes, and here are {query.ndim}"
    if torch.is_autocast_enabled("cpu"):
        return "autocast chooses the dtype of torch's operations"
    if type(query) not in (Tensor, nn.Parameter) or torch._C._are_functorch_transforms_active():
        return "the query is no plain tensor"
    return None


def _weights(query: Tensor, key: Tensor, added: Tensor | None, scale: float) -> Tensor:
    scores = (query * scale) @ key.mT
    return torch.softmax(scores if added is None else scores + added, -1)


def _in_c(query: Tensor, key: Tensor, value: Tensor, added: Tensor | None, scale: float) -> Tensor:
    return cast("Kernels", kernels()).small_queries(
        *map(_dense, (query, key, value)), added=None if added is None else _dense(added), scale=scale
    )


class _SmallQueries(torch.autograd.Function):
    """The C kernel, with or without gradients. The weights, which it does not keep, are computed again for them."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, added: Tensor | None, scale: float
    ) -> Tensor:
        ctx.save_for_backward(query, key, value, added)
        ctx.scale = scale
        return _in_c(query, key, value, added, scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, added = ctx.saved_tensors
        weights = _weights(query, key, added, ctx.scale)
        to_weights = grad @ value.mT
        to_scores = weights * (to_weights - (weights * to_weights).sum(-1, keepdim=True)) * ctx.scale
        wanted = ctx.needs_input_grad
        return (
            to_scores @ key if wanted[0] else None,
            to_scores.mT @ query if wanted[1] else None,
            weights.mT @ grad if wanted[2] else None,
            None,
            None,
        )


def _dense(x: Tensor) -> Tensor:
    """With neighbouring numbers along the last axis."""
    return x if x.stride(-1) == 1 else x.contiguous()
