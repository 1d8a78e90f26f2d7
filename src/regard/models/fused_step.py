"""One decoding step in few kernels, for 16-bit inference on a GPU: so few rows take less time to compute than kernels to
start.

Eleven kernels a block, each of which reads its weights while the one before it is at work: linear maps with their
activations, attention over the static cache, and residuals with their norms. `optimise` gives a decoder such a step; what
it does not know it names, and the decoder keeps its modules.
"""

from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.kernels.triton_available import TRITON_INSTALLED
from regard.attention.multihead import InProjection, MultiHeadAttention
from regard.attention.scores import ScaledDot
from regard.errors import RegardError
from regard.layers.blocks import DecoderBlock, Dropout, FeedForward, Residual, StochasticDepth, after, before
from regard.layers.embedding import Embedding
from regard.layers.inference_only import AddedNorm, FusedResidual
from regard.layers.rotary import Rotary
from regard.models.static_decoder import StaticDecoder

_KNOWN = {
    DecoderBlock, MultiHeadAttention, InProjection, ScaledDot, Rotary, FeedForward,
    Residual, FusedResidual, AddedNorm, StochasticDepth, Dropout, nn.LayerNorm, nn.Linear,
}  # fmt: skip
_ACTIVATIONS = {F.relu: "relu", F.gelu: "gelu"}
_PLACEMENTS = [({after}, nn.Identity), ({before}, nn.LayerNorm)]  # norms, and the one behind the last block
_MAX_ROWS, _MAX_WIDTH = 64, 512  # for which these kernels are faster than a library's

_INSTEAD = "use a plain model: regard.load(…, optimise=False)"

Map = tuple[Tensor, Tensor | None]  # weight and bias


@dataclass(frozen=True, kw_only=True, eq=False)
class DecoderParts:
    """The parts of a Transformer decoder."""

    embedding: Embedding
    blocks: tuple[DecoderBlock, ...]
    norm: nn.Module
    output: nn.Module | None  # None: the table of the embedding


class FusedStep:
    """What a decoder computes at one position, from the weights of its modules and without calling them."""

    def __init__(self, decoder: DecoderParts) -> None:
        reason = unknown(decoder)
        if reason is not None:
            raise RegardError(f"no fused step: {reason}")
        self._parts = decoder
        self._blocks, self._table, self._output = decoder.blocks, decoder.embedding.table, decoder.output
        norms = [
            cast("nn.LayerNorm", around.norm) for block in decoder.blocks for around in _residuals(block)
        ]
        self._after = decoder.blocks[0].around_attention.placement is after
        self._first = None if self._after else norms[0]
        # What each sum goes through: its own norm, or the one before the next map.
        self._norms = norms if self._after else [*norms[1:], cast("nn.LayerNorm", decoder.norm)]

    def fits(self, rows: int) -> bool:
        """Whether these kernels are the faster ones for so many rows."""
        return rows <= _MAX_ROWS

    def refuse_altered(self, model: nn.Module) -> None:
        """Raise if a module was given hooks or a forward since: they would not be called."""
        inside = set(_named_parts(self._parts))
        for name, part in model.named_modules():
            if part in inside and (how := _altered(part)) is not None:
                raise RegardError(
                    f"{name} has {how}, and the model is optimised for inference: its decoder steps without calling its "
                    "modules; load it with optimise=False"
                )

    def __call__(
        self, tokens: Int[Tensor, " rows"], state: StaticDecoder
    ) -> Float[Tensor, "rows vocabulary"]:
        """The logits of what follows these tokens. Their keys and values are written into the static caches."""
        self._refuse_gradients(state)
        from regard.layers.kernels.embedded import embedded
        from regard.layers.kernels.narrow import narrow, narrow_sums

        memory = state.memory
        x = embedded(tokens, self._table, at=state.offset.at, vectors=state.offset.vectors)
        seen = x if self._first is None else self._first(x)  # what the next map sees of x
        norms = iter(self._norms)
        for block, layer, past in zip(self._blocks, memory.layers, state.pasts, strict=True):
            attention, cross, feed = block.attention, block.cross, cast("FeedForward", block.feedforward)
            made = narrow(seen, *_map(attention.input.all))[:, None]
            query, key, value = torch.split(made, list(attention.input.outputs), dim=-1)
            taken = attention.step_beam_heads(query, key, value, past)[0][:, 0]
            x, seen = self._join(x, narrow_sums(taken, *_map(attention.output)), next(norms))

            query = narrow(seen, *cross.input.asking).reshape(len(layer.key), memory.group, -1)
            taken = cross.recall_heads(query, layer, mask=memory.mask, reach=memory.reach).flatten(0, 1)
            x, seen = self._join(x, narrow_sums(taken, *_map(cross.output)), next(norms))

            made = narrow(seen, *_map(feed.inner), activation=_ACTIVATIONS[feed.activation])
            x, seen = self._join(x, narrow_sums(made, *_map(feed.outer)), next(norms))
        return F.linear(seen, self._table) if self._output is None else self._output(seen)

    def _refuse_gradients(self, state: StaticDecoder) -> None:
        if self._blocks[0].training:
            raise RegardError(f"FusedStep is optimised for inference and cannot be trained; {_INSTEAD}")
        if torch.is_grad_enabled():
            weights = [
                weight for part in _named_parts(self._parts) for weight in part.parameters(recurse=False)
            ]
            if any(each.requires_grad for each in (*weights, state.memory.layers[0].key)):
                raise RegardError(f"FusedStep is optimised for inference and gives no gradients; {_INSTEAD}")

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


def obstacle(decoder: DecoderParts) -> str | None:
    """Why a decoder cannot have a fused step, or would not be faster; None if it can."""
    table = decoder.embedding.table
    if not (TRITON_INSTALLED and table.is_cuda):
        return "the kernels need Triton and a GPU"
    if table.dtype not in (torch.float16, torch.bfloat16):
        return f"the kernels are for float16 and bfloat16, and the weights are {table.dtype}"
    if table.shape[-1] > _MAX_WIDTH:
        return f"at width {table.shape[-1]} a library's kernels are faster, from {_MAX_WIDTH + 1} on"
    return unknown(decoder)


def unknown(decoder: DecoderParts) -> str | None:
    """The part of a decoder that a fused step does not know; None if it knows all."""
    parts = _named_parts(decoder)
    weighted = [*parts] if decoder.output is None else [*parts, decoder.output]
    around = [residual for block in decoder.blocks for residual in _residuals(block)]
    table = decoder.embedding.table
    strange = {type(part) for block in decoder.blocks for part in block.modules()} - _KNOWN
    if strange:
        return f"unknown modules: {', '.join(sorted(kind.__name__ for kind in strange))}"
    for part, name in parts.items():
        if (how := _altered(part)) is not None:
            return f"{name} has {how}, and a fused step does not call its modules"
    if type(decoder.embedding) is not Embedding or type(decoder.output) not in (nn.Linear, type(None)):
        return "the embedding or the output has a type of its own"
    if decoder.embedding.join == "concatenate":
        return "positions are concatenated to the embedding"
    if ({residual.placement for residual in around}, type(decoder.norm)) not in _PLACEMENTS:
        return "the norms are placed otherwise than before or after each layer"
    if any(type(residual.norm) not in (nn.LayerNorm, AddedNorm) for residual in around):
        return "a norm is not LayerNorm"
    if any(part.bias is None for part in parts if isinstance(part, nn.LayerNorm)):
        return "a norm has no bias"
    if not all(_plain(weight, table) for part in weighted for weight in part.parameters(recurse=False)):
        return "the weights are of several types or devices, or not contiguous"
    if not all(_regular(block) for block in decoder.blocks):
        return "queries, keys and values have maps of their own, or the activation is neither ReLU nor GELU"
    return None


def _named_parts(decoder: DecoderParts) -> dict[nn.Module, str]:
    """Every module that a fused step does not call, with its name for messages."""
    ends = {"the embedding": decoder.embedding, "the last norm": decoder.norm}
    named = {part: name for name, whole in ends.items() for part in whole.modules()}
    for number, block in enumerate(decoder.blocks):
        named |= {part: f"{name} of block {number}".lstrip() for name, part in block.named_modules()}
    return named


def _altered(part: nn.Module) -> str | None:
    """What a module was given that takes effect when it is called; None: nothing."""
    if part._forward_hooks or part._forward_pre_hooks:
        return "hooks"
    return "a forward of its own" if "forward" in vars(part) else None


def _plain(weight: Tensor, like: Tensor) -> bool:
    return weight.dtype == like.dtype and weight.device == like.device and weight.is_contiguous()


def _regular(block: DecoderBlock) -> bool:
    feed = block.feedforward
    mapped = block.attention.input.packed and block.cross.input.packed
    return mapped and type(feed) is FeedForward and feed.activation in _ACTIVATIONS
