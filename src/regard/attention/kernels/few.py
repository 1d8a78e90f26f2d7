"""Attention of a few queries on the CPU: two products and a softmax beat torch's fused kernel there."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from regard.attention.kernels.native import native

MOST = 5  # queries a head: a beam of the usual width over one source


def few(
    query: Float[Tensor, "*batch q d"],
    key: Float[Tensor, "*kv_batch k d"],
    value: Float[Tensor, "*kv_batch k dv"],
    *,
    added: Float[Tensor, "... _q _k"] | None,  # 0, and −inf where nobody may look
    scale: float,
    dropout: float,
) -> Float[Tensor, "*batch q dv"]:
    """dropout(softmax(scale · QKᵀ + added)) V, for rows that may all look at something."""
    compiled = None if dropout or query.ndim != 4 else native()
    if compiled is not None and not (query.requires_grad or key.requires_grad or value.requires_grad):
        return compiled.small_queries(
            *map(_dense, (query, key, value)), added=None if added is None else _dense(added), scale=scale
        )
    scores = (query * scale) @ key.mT
    if added is not None:
        scores += added
    weights = torch.softmax(scores, -1)
    return (F.dropout(weights, dropout) if dropout else weights) @ value


def _dense(x: Tensor) -> Tensor:
    """With neighbouring numbers along the last axis."""
    return x if x.stride(-1) == 1 else x.contiguous()
