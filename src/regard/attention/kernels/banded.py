"""Attention within a band, block by block: queries of one block see the keys of theirs and of its neighbourhood only.

Time and memory grow with the length times the width of the band; under a matrix they grow with the square of the
length, however narrow the band is.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from regard.attention.kernels.fused import fused

_LEAST = 64  # queries of a block: fewer make more products, which are smaller
_COPIES = 4  # of a key at most, but for one more, since neighbouring blocks see the same


def block_of(low: int, high: int) -> int:
    """How many queries go together under a band."""
    return max(_LEAST, -(-(high - low + 1) // _COPIES))


def in_blocks(
    query: Float[Tensor, "*batch q d"],
    key: Float[Tensor, "*kv_batch k d"],
    value: Float[Tensor, "*kv_batch k dv"],
    *,
    band: tuple[int, int],  # low ≤ j − i ≤ high
    real: Bool[Tensor, "... k"] | None,  # keys that may be seen at all
    scale: float,
    dropout: float,
) -> Float[Tensor, "*batch q dv"]:
    """softmax(scale · QKᵀ) V within a band. A query that sees no key gets what is of no use."""
    low, high = band
    size, queries, keys = block_of(low, high), query.shape[-2], key.shape[-2]
    blocks, across = -(-queries // size), size + high - low

    def cut(x: Tensor) -> Tensor:
        """[blocks, …, across, d]: of every block the keys from that `low` of its first query to that `high` of its last."""
        end = (blocks - 1) * size + across + low
        return F.pad(x, (0, 0, -low, end - keys)).unfold(-2, across, size).movedim(-3, 0).mT

    asked = F.pad(query, (0, 0, 0, blocks * size - queries)).unfold(-2, size, size).movedim(-3, 0).mT
    ahead = torch.arange(across, device=query.device) - torch.arange(size, device=query.device)[:, None]
    there = torch.ones(keys, dtype=torch.bool, device=query.device) if real is None else real
    allowed = cut(there[..., None])[..., 0][..., None, :] & (ahead >= 0) & (ahead <= high - low)
    if real is None:
        allowed = allowed.reshape(blocks, *[1] * (query.ndim - 2), size, across)
    mixed = fused(
        asked,
        cut(key),
        cut(value),
        bias=None,
        allowed=allowed | ~allowed.any(-1, keepdim=True),
        triangular=False,
        scale=scale,
        dropout=dropout,
    )
    return mixed.movedim(0, -3).flatten(-3, -2)[..., :queries, :]
