"""Attention with its weights in memory: for what the fused kernels cannot do."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from regard.attention.kernels.additive import additive_scores
from regard.attention.weights import softmax


def written(
    scores: Float[Tensor, "*batch q k"],
    value: Float[Tensor, "*batch k dv"],
    bias: Float[Tensor, "... q k"] | None,
    allowed: Bool[Tensor, "... _q _k"] | None,
    dropout: float,
) -> Float[Tensor, "*batch q dv"]:
    """dropout(softmax(scores + bias)) · V."""
    if bias is not None:
        scores = scores + bias
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -math.inf)
    wide = torch.promote_types(scores.dtype, torch.float32)
    # A row that sees nothing was opened by who made `allowed`; only a bias can still close one.
    whole = torch.softmax(scores, -1, dtype=wide) if bias is None else softmax(scores.to(wide))
    weights = whole.to(value.dtype)
    return F.dropout(weights, dropout) @ value


def scores_of(
    query: Float[Tensor, "*batch q r"],
    key: Float[Tensor, "*batch k r"],
    vector: Float[Tensor, "*head r"] | None,  # of the additive score
) -> Float[Tensor, "*batch q k"]:
    """QKᵀ, or vᵀ tanh(K + Q). In float32 for float16, which ends at 65504: what is scaled later may pass that."""
    if query.dtype == torch.float16:
        with torch.autocast(query.device.type, enabled=False):
            return scores_of(query.float(), key.float(), vector)
    return query @ key.mT if vector is None else additive(query, key, vector)


def additive(
    query: Float[Tensor, "*batch q r"], key: Float[Tensor, "*batch k r"], vector: Float[Tensor, "*head r"]
) -> Float[Tensor, "*batch q k"]:
    """vᵀ tanh(key + query), a tile at a time; `vector` is [r], or [heads, r] for heads on the last batch axis."""
    batch = query.shape[:-2]
    calls = math.prod(batch)
    vectors = vector.to(query.dtype).expand(*batch, -1).reshape(calls, vector.shape[-1])
    queries, keys = (part.reshape(calls, *part.shape[-2:]) for part in (query, key))
    return additive_scores(queries, keys, vectors).reshape(*batch, query.shape[-2], key.shape[-2])
