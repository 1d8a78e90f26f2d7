"""Attention on torch's fused kernels, which never hold the weights."""

import math

from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F
from torch.nn.functional import scaled_dot_product_attention  # by name: watching patches the attribute of F

from regard.attention.scores import share


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
) -> Float[Tensor, "*batch q dv"]:
    """softmax(scale · QKᵀ + bias) V.

    The kernels want four axes and one width, so batch axes are folded or added, and the narrower of key and value
    is filled up with zeros, which changes no score and only adds columns of zeros to the result.
    """
    batch, width = query.shape[:-2], max(query.shape[-1], value.shape[-1])
    if (
        0 in batch
    ):  # torch 2.11 divides by the number of heads; an empty product still gives all three a gradient
        return query @ share(key, query).mT @ share(value, query)
    if bias is not None:
        bias = bias if allowed is None else bias.masked_fill(~allowed, -math.inf)
    mixed = scaled_dot_product_attention(
        _aligned(four_axes(_widen(query, width))),
        _aligned(four_axes(_widen(key, width))),
        _aligned(four_axes(_widen(value, width))),
        attn_mask=spread(allowed if bias is None else bias, batch),
        is_causal=triangular,
        scale=scale,
        dropout_p=dropout,
        enable_gqa=query.shape[:-2] != key.shape[:-2],
    )
    return mixed.reshape(*batch, *mixed.shape[-2:])[..., : value.shape[-1]]


def _widen(tensor: Tensor, width: int) -> Tensor:
    return tensor if tensor.shape[-1] == width else F.pad(tensor, (0, width - tensor.shape[-1]))


def _aligned(tensor: Float[Tensor, "b h n d"]) -> Float[Tensor, "b h n d"]:
    """With rows that begin at multiples of 16 bytes, which a kernel of torch's for CUDA demands and does not check.

    Slices of one wide projection have other rows where its parts have odd widths.
    """
    if not tensor.is_cuda:
        return tensor
    step, starts = 16 // tensor.element_size(), (*tensor.stride()[:-1], tensor.storage_offset())
    # Only rows that can be aligned: for others torch takes a kernel that needs no alignment.
    crooked = tensor.shape[-1] % step == 0 and any(start % step for start in starts)
    return tensor.contiguous() if crooked else tensor


def four_axes(tensor: Tensor) -> Tensor:
    """[..., h, n, d] → [b, h, n, d]."""
    if tensor.ndim == 4:
        return tensor
    return tensor.flatten(0, -4) if tensor.ndim > 4 else tensor[(None,) * (4 - tensor.ndim)]


def spread(matrix: Tensor | None, batch: tuple[int, ...]) -> Tensor | None:
    """A mask or bias with four axes; folding more than two batch axes needs those it is constant along."""
    if matrix is None:
        return None
    if len(batch) > 2 and matrix.ndim > 2:
        matrix = matrix.expand(*batch[:-1], *matrix.shape[-3:])
    return four_axes(matrix)
