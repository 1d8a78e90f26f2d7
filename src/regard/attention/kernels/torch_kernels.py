"""Attention in torch operations: its fused kernels, weights in memory, a few queries on a CPU, a band block by block."""

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F
from torch.nn.functional import scaled_dot_product_attention  # by name: watching patches the attribute of F

from regard.attention.call import by_autocast
from regard.attention.kernels.learned_bias import memory_efficient
from regard.attention.kernels.native import NOT_BUILT, Kernels, kernels, untraced
from regard.attention.scores import share
from regard.attention.weights import softmax


def fused(
    query: Float[Tensor, "*batch q d"],
    key: Float[Tensor, "*kv_batch k d"],
    value: Float[Tensor, "*kv_batch k dv"],
    *,
    bias: Float[Tensor, "... _q k"] | None,
    allowed: Bool[Tensor, "... _q _k"] | None,
    triangular: bool,
    scale: float,
    dropout: float,
    learned: bool = False,  # whether the bias wants a gradient
) -> Float[Tensor, "*batch q dv"]:
    """softmax(scale · QKᵀ + bias) V.

    The kernels want four axes and one width, so batch axes are folded or added, and the narrower of key and value
    is filled up with zeros, which changes no score and only adds columns of zeros to the result.
    """
    *batch, _, width = query.shape
    values = value.shape[-1]
    # torch 2.11 divides by the number of heads; an empty product still gives all three a gradient.
    if 0 in batch:
        return query @ share(key, query).mT @ share(value, query)
    if bias is not None:
        allowed = bias if allowed is None else bias.masked_fill(~allowed, -math.inf)
    wide = max(width, values)
    if learned:
        query, key, value = by_autocast(query, key, value)
        wide += -wide % 8  # 16 bytes of 16 bits
    query, key, value = _laid_out(query, wide), _laid_out(key, wide), _laid_out(value, wide)
    if learned and allowed is not None:
        mixed = memory_efficient(query, key, value, spread(allowed, batch), scale, dropout)
    else:
        mixed = scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=spread(allowed, batch),
            is_causal=triangular,
            scale=scale,
            dropout_p=dropout,
            enable_gqa=bool(query.shape[1] != key.shape[1]),
        )
    # Views are left out where they would show all of it: each costs time, and its gradient a copy.
    mixed = mixed if len(batch) == 2 else mixed.reshape(*batch, *mixed.shape[-2:])
    return mixed if values == wide else mixed[..., :values]


def _laid_out(tensor: Float[Tensor, "*batch n d"], width: int) -> Float[Tensor, "b h n {width}"]:
    if tensor.shape[-1] != width:
        tensor = F.pad(tensor, (0, width - tensor.shape[-1]))
    if tensor.ndim != 4:
        tensor = four_axes(tensor)
    return _aligned(tensor) if tensor.is_cuda else tensor


def _aligned(tensor: Float[Tensor, "b h n d"]) -> Float[Tensor, "b h n d"]:
    """With rows that begin at multiples of 16 bytes, which a kernel of torch's for CUDA demands and does not check.

    Slices of one wide projection have other rows where its parts have odd widths.
    """
    step, (batch, head, row, _) = 16 // tensor.element_size(), tensor.stride()
    crooked = (batch | head | row) % step or tensor.storage_offset() % step  # a step is a power of two
    # Only rows that can be aligned: for others torch takes a kernel that needs no alignment.
    return tensor.contiguous() if crooked and tensor.shape[-1] % step == 0 else tensor


def four_axes(tensor: Tensor) -> Tensor:
    """[..., h, n, d] → [b, h, n, d]."""
    if tensor.ndim == 4:
        return tensor
    return tensor.flatten(0, -4) if tensor.ndim > 4 else tensor[(None,) * (4 - tensor.ndim)]


def spread(matrix: Tensor | None, batch: Sequence[int]) -> Tensor | None:
    """A mask or bias with four axes; folding more than two batch axes needs those it is constant along."""
    if matrix is None:
        return None
    if len(batch) > 2 and matrix.ndim > 2:
        matrix = matrix.expand(*batch[:-1], *matrix.shape[-3:])
    return four_axes(matrix)


def written(
    scores: Float[Tensor, "*batch q k"],
    value: Float[Tensor, "*batch k dv"],
    bias: Float[Tensor, "... _q k"] | None,
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
    """dropout(softmax(scale · QKᵀ + added)) V, for rows that may all look at something.

    For so few queries torch's fused kernel is slower than a C kernel, or than two products and a softmax.
    """
    fits = key.dtype == value.dtype == torch.float32 and untraced(key) and untraced(value)
    if fits and torch_instead(query, dropout) is None:
        if torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad):
            return _SmallQueries.apply(query, key, value, added, scale)  # type: ignore[no-untyped-call]
        return _in_c(
            query, key, value, added, scale
        )  # the same kernel, without the 8 µs of recording a gradient
    weights = _weights(query, key, added, scale)
    return (F.dropout(weights, dropout) if dropout else weights) @ value


def torch_instead(query: Tensor, dropout: float) -> str | None:
    """Why torch's operations compute this and not the C kernel; None where the C kernel does.

    Neither gradients nor autocast decide. The transforms of torch.func have a meaning for torch's operations alone.
    """
    if kernels() is None:
        return NOT_BUILT
    if dropout:
        return "the C kernel has no dropout"
    if query.ndim != 4:
        return f"the C kernel takes four axes, and here are {query.ndim}"
    if query.dtype != torch.float32:  # such as what a bilinear score makes of it under autocast
        return f"the C kernel takes float32, and here is {query.dtype}"
    if not untraced(query):
        return "the C kernel cannot be traced or transformed"
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
    """softmax(scale · QKᵀ) V within a band; undefined for a query that sees no key.

    Time and memory grow with the length times the width of the band; under a matrix they grow with the square of the
    length, however narrow the band is.
    """
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
