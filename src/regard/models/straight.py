"""A step of a decoder as one row of kernels, for a GPU: so few rows take less time to compute than kernels to start.

Eleven kernels a block, each of which reads its weights while the one before it is at work: the maps with their
activations, what asks the rooms, and residuals with their norms. A decoder with a part that is not known here, or that
somebody listens to, goes its ordinary way.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.kernels.triton_available import TRITON_INSTALLED
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

_KNOWN = {
    DecoderBlock, MultiHeadAttention, InProjection, ScaledDot, Rotary, FeedForward,
    Residual, StochasticDepth, Dropout, nn.LayerNorm, nn.Linear,
}  # fmt: skip
_ACTIVATIONS = {F.relu: "relu", F.gelu: "gelu"}
_PLACED = [({after}, nn.Identity), ({before}, nn.LayerNorm)]  # norms, and the one behind the last block
_ROWS, _WIDTH = 64, 512  # the most for which these kernels are faster than a library's

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
        self._blocks, self._table, self._output = decoder.blocks, decoder.embedding.table, decoder.output
        norms = [
            cast("nn.LayerNorm", around.norm) for block in decoder.blocks for around in _residuals(block)
        ]
        self._after = decoder.blocks[0].around_attention.placement is after
        self._first = None if self._after else norms[0]
        # What each sum goes through: its own norm, or the one before the next map.
        self._norms = norms if self._after else [*norms[1:], cast("nn.LayerNorm", decoder.norm)]

    def __call__(
        self, tokens: Int[Tensor, " rows"], offset: Tabled, memory: Memory, pasts: Iterable[SharedPast]
    ) -> tuple[Float[Tensor, "rows vocabulary"], None]:
        """The logits of what follows tokens at this position; the pasts are written where they lie."""
        from regard.layers.kernels.embedded import embedded
        from regard.layers.kernels.narrow import narrow, narrow_sums

        x = embedded(tokens, self._table, at=offset.at, vectors=offset.vectors)
        seen = x if self._first is None else self._first(x)  # what the next map sees of x
        norms = iter(self._norms)
        for block, layer, past in zip(self._blocks, memory.layers, pasts, strict=True):
            attention, cross, feed = block.attention, block.cross, cast("FeedForward", block.feedforward)
            made = narrow(seen, *_map(attention.input.all))[:, None]
            query, key, value = torch.split(made, list(attention.input.outputs), dim=-1)
            taken = attention.taken_beside(query, key, value, past)[0][:, 0]
            x, seen = self._join(x, narrow_sums(taken, *_map(attention.output)), next(norms))

            query = narrow(seen, *cross.input.asking).reshape(len(layer.key), memory.group, -1)
            taken = cross.taken(query, layer, reach=memory.reach).flatten(0, 1)
            x, seen = self._join(x, narrow_sums(taken, *_map(cross.output)), next(norms))

            made = narrow(seen, *_map(feed.inner), activation=_ACTIVATIONS[feed.activation])
            x, seen = self._join(x, narrow_sums(made, *_map(feed.outer)), next(norms))
        return F.linear(seen, self._table) if self._output is None else self._output(seen), None

    def _join(self, x: Tensor, made: Tensor, norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
        """x and what is added to it, and what the next map sees of that."""
        from regard.layers.kernels.added_norm import summed_norm

        if self._after:
            x = summed_norm(x, made, norm)
            return x, x
        total = torch.empty_like(x)
        return total, summed_norm(x, made, norm, total=total)


def _residuals(block: DecoderBlock) -> tuple[Residual, Residual, Residual]:
    return block.around_attention, block.around_cross, block.around_feedforward


def _map(linear: nn.Module) -> Map:
    return cast("nn.Linear", linear).weight, cast("nn.Linear", linear).bias


def straight(decoder: Decoder, *, rows: int) -> Straight | None:
    """A step of this decoder in one row of kernels; None where it is not faster, or cannot be."""
    table = decoder.embedding.table
    fits = rows <= _ROWS and table.shape[-1] <= _WIDTH and table.dtype in (torch.float16, torch.bfloat16)
    return Straight(decoder) if TRITON_INSTALLED and table.is_cuda and fits and known(decoder) else None


def known(decoder: Decoder) -> bool:
    """Whether every part of a decoder is one that is known here, and nobody listens to it."""
    ends = [part for part in (decoder.embedding, decoder.norm, decoder.output) if part is not None]
    parts = [part for whole in (*decoder.blocks, *ends) for part in whole.modules()]
    around = [residual for block in decoder.blocks for residual in _residuals(block)]
    table = decoder.embedding.table
    return (
        {type(part) for block in decoder.blocks for part in block.modules()} <= _KNOWN
        and type(decoder.embedding) is Embedding
        and ({residual.placement for residual in around}, type(decoder.norm)) in _PLACED
        and type(decoder.output) in (nn.Linear, type(None))
        and all(type(residual.norm) is nn.LayerNorm for residual in around)
        and all(part.bias is not None for part in parts if isinstance(part, nn.LayerNorm))
        and all(_plain(weight, table) for part in parts for weight in part.parameters(recurse=False))
        and all(_regular(block) for block in decoder.blocks)
        and not any(
            part.training or part._forward_hooks or part._forward_pre_hooks or "forward" in vars(part)
            for part in parts
        )
    )


def _plain(weight: Tensor, like: Tensor) -> bool:
    return weight.dtype == like.dtype and weight.device == like.device and weight.is_contiguous()


def _regular(block: DecoderBlock) -> bool:
    feed = block.feedforward
    mapped = block.attention.input.packed and block.cross.input.packed
    return mapped and type(feed) is FeedForward and feed.activation in _ACTIVATIONS
