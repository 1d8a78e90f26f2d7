"""Attention of a few queries on the CPU: two products and a softmax beat torch's fused kernel there."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

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
    scores = (query * scale) @ key.mT
    if added is not None:
        scores += added
    weights = torch.softmax(scores, -1)
    return (F.dropout(weights, dropout) if dropout else weights) @ value
