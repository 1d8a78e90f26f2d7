"""A step of a decoder as one row of kernels, for a GPU: so few rows take less time to compute than kernels to start.

Eight kernels a block: each linear map takes the norm before it along, and the activation or the residual behind it.
A sum whose norm comes after it is kept as it is, and who reads it normalises it. A decoder with a part that is not known
here, or that somebody listens to, goes its ordinary way.
"""

import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.lineage import SharedPast
from regard.attention.multihead import MultiHeadAttention
from regard.attention.projection import InProjection
from regard.attention.scores import ScaledDot
from regard.layers.blocks import DecoderBlock
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding
from regard.layers.feedforward import FeedForward
from regard.layers.positions import Tabled
from regard.layers.residual import Residual, StochasticDepth, after, before
from regard.layers.rotary import Rotary
from regard.models.memory import Memory

_TRITON = importlib.util.find_spec("triton") is not None
_KNOWN = {
    DecoderBlock, MultiHeadAttention, InProjection, ScaledDot, Rotary, FeedForward,
    Residual, StochasticDepth, Dropout, nn.LayerNorm, nn.Linear,
}  # fmt: skip
_ACTIVATIONS = {F.relu: "relu", F.gelu: "gelu"}
_ROWS, _WIDTH = 256, 1024  # the most for which these kernels are faster than a library's

Map = tuple[Tensor, Tensor | None]  # weight and bias


@dataclass(frozen=True, kw_only=True, eq=False)
class Decoder:
    """The parts of what writes."""

    embedding: Embedding
    blocks: tuple[DecoderBlock, ...]
    norm: nn.Module
    output: nn.Module | None  # None: the table of the embedding


class Straight:
    """What `advance` of a model computes."""

    def __init__(self, decoder: Decoder) -> None:
        self._blocks, self._table = decoder.blocks, decoder.embedding.table
        self._last = decoder.norm if isinstance(decoder.norm, nn.LayerNorm) else None
        self._output = (self._table, None) if decoder.output is None else _map(decoder.output)

    def __call__(
        self, tokens: Int[Tensor, " rows"], offset: Tabled, memory: Memory, pasts: Iterable[SharedPast]
    ) -> tuple[Float[Tensor, "rows vocabulary"], None]:
        """The logits of what follows tokens at this position; the pasts are written where they lie."""
        from regard.layers.kernels.embedded import embedded
        from regard.layers.kernels.narrow import narrow

        x = embedded(tokens, self._table, at=offset.at, vectors=offset.vectors)
        norm: nn.LayerNorm | None = None  # that x has yet to pass
        for block, layer, past in zip(self._blocks, memory.layers, pasts, strict=True):
            attention, cross, feed = block.attention, block.cross, cast("FeedForward", block.feedforward)
            made, x = _into(block.around_attention, x, norm, _map(attention.input.all))
            query, key, value = torch.split(made[:, None], list(attention.input.outputs), dim=-1)
            taken = attention.taken_beside(query, key, value, past)[0]
            x, norm = narrow(taken[:, 0], *_map(attention.output), around=x), _owed(block.around_attention)

            made, x = _into(block.around_cross, x, norm, cross.input.asking)
            query = made.reshape(len(layer.key), -1, made.shape[-1])
            taken = cross.taken(query, layer, reach=memory.reach)
            x, norm = narrow(taken.flatten(0, 1), *_map(cross.output), around=x), _owed(block.around_cross)

            kind = _ACTIVATIONS[feed.activation]
            made, x = _into(block.around_feedforward, x, norm, _map(feed.inner), kind)
            x, norm = narrow(made, *_map(feed.outer), around=x), _owed(block.around_feedforward)
        return narrow(x, *self._output, norm=norm or self._last), None


def _into(
    residual: Residual, x: Tensor, norm: nn.LayerNorm | None, first: Map, activation: str = ""
) -> tuple[Tensor, Tensor]:
    """What the first map inside a residual makes of x, and what goes around."""
    from regard.layers.kernels.narrow import narrow

    if residual.placement is before:
        return narrow(x, *first, norm=cast("nn.LayerNorm", residual.norm), activation=activation), x
    entered = x if norm is None else torch.empty_like(x)
    return narrow(x, *first, norm=norm, activation=activation, entered=entered), entered


def _owed(residual: Residual) -> nn.LayerNorm | None:
    """The norm that its sum has yet to pass."""
    return cast("nn.LayerNorm", residual.norm) if residual.placement is after else None


def _map(linear: nn.Module) -> Map:
    return cast("nn.Linear", linear).weight, cast("nn.Linear", linear).bias


def straight(decoder: Decoder, *, rows: int) -> Straight | None:
    """A step of this decoder in one row of kernels; None where it is not faster, or cannot be."""
    table = decoder.embedding.table
    fits = rows <= _ROWS and table.shape[-1] <= _WIDTH and table.dtype in (torch.float16, torch.bfloat16)
    return Straight(decoder) if _TRITON and table.is_cuda and fits and known(decoder) else None


def known(decoder: Decoder) -> bool:
    """Whether every part of a decoder is one that is known here, and nobody listens to it."""
    ends = [part for part in (decoder.embedding, decoder.norm, decoder.output) if part is not None]
    parts = [part for whole in (*decoder.blocks, *ends) for part in whole.modules()]
    table = decoder.embedding.table
    return (
        {type(part) for block in decoder.blocks for part in block.modules()} <= _KNOWN
        and type(decoder.embedding) is Embedding
        and type(decoder.norm) in (nn.LayerNorm, nn.Identity)
        and type(decoder.output) in (nn.Linear, type(None))
        and all(_plain(weight, table) for part in parts for weight in part.parameters(recurse=False))
        and all(part.bias is not None for part in parts if isinstance(part, nn.LayerNorm))
        and all(_regular(block) for block in decoder.blocks)
        and not any(
            part.training or part._forward_hooks or part._forward_pre_hooks or "forward" in vars(part)
            for part in parts
        )
    )


def _plain(weight: Tensor, like: Tensor) -> bool:
    return weight.dtype == like.dtype and weight.device == like.device and weight.is_contiguous()


def _regular(block: DecoderBlock) -> bool:
    around = (block.around_attention, block.around_cross, block.around_feedforward)
    placements = {residual.placement for residual in around}
    return (
        placements in ({before}, {after})
        and type(block.feedforward) is FeedForward
        and block.feedforward.activation in _ACTIVATIONS
        and block.attention.input.packed
        and block.cross.input.packed
        and all(type(residual.norm) is nn.LayerNorm for residual in around)
    )
