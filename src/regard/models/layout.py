"""Batches as models read them: checked, their texts laid out (one a row, padded, or packed end to end), and encoded.

A mistake in a batch is one line that names it. Blocks only see the masks of a layout.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.masks import Mask, causal, lengths
from regard.attention.packed_mask import packed
from regard.attention.packing import Packing
from regard.data.batches import (
    START,
    Images,
    Labelled,
    Packed,
    Pairs,
    Sequences,
    Sounds,
    Spans,
    Texts,
    span_of,
)
from regard.data.given import instance, integers, shown, vectors
from regard.errors import RegardError
from regard.layers.embedding import Embedding, Offset, Placed, capturing
from regard.layers.pooling import AttentionPooling, mean_pooling

Pooling = Literal["attention", "mean", "first"]


@dataclass(frozen=True, eq=False)
class Layout:
    """The positions of tokens in their sequences, and the masks: one sequence a row, or all in one row (`packing`)."""

    lengths: Int[Tensor, " b"]
    packing: Packing | None = None

    @classmethod
    def of(cls, texts: Texts) -> "Layout":
        """The layout of some texts, from numbers that need no synchronisation. Their vectors are to be `sanitised`."""
        if isinstance(texts, Sequences):
            return cls(texts.lengths)
        size = texts.tokens.shape[0]
        packing = Packing(texts.lengths, size, texts.longest, texts.shortest, texts.filled, clean=True)
        return cls(texts.lengths, packing)

    @property
    def offset(self) -> Offset:
        """The positions of the tokens: from the beginning of their rows, or those in each sequence."""
        return 0 if self.packing is None else Placed(self.packing.places, self.packing.longest)

    def sanitised(self, x: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b n d"]:
        """Vectors of the texts with zeros for filling: once, rather than in every block."""
        if self.packing is None or not self.packing.filled:
            return x
        return torch.where(self.packing.real[:, None], x, 0.0)

    def own(self) -> Mask:
        """Every sequence sees itself."""
        return self._own

    @cached_property
    def _own(self) -> Mask:
        return lengths(self.lengths) if self.packing is None else packed(self.packing)

    def back(self) -> Mask:
        """Every sequence sees itself, up to the position that looks."""
        return causal() & self.own()

    def asking(self, memory: "Layout") -> Mask:
        """Every sequence sees its memory: the row beside it, or the n-th sequence the n-th."""
        if (self.packing is None) != (memory.packing is None):
            raise RegardError(
                "one of source and target is packed and the other is padded: pack both, or neither"
            )
        if self.packing is None or memory.packing is None:
            return lengths(keys=memory.lengths)
        return packed(memory.packing, queries=self.packing)

    def decoder_input(self, target: Texts) -> Int[Tensor, "*b t"]:
        """What precedes each token of texts in this layout: START, and then the target one token late."""
        if isinstance(target, Sequences):
            return target.decoder_input()
        packing = self.packing
        if packing is None:
            raise RegardError("packed texts and a padded layout: take the layout of these texts")
        return torch.where(packing.places == 0, START, target.tokens.roll(1))

    def to_learn(
        self, x: Float[Tensor, "*b n d"], texts: Texts
    ) -> tuple[Float[Tensor, "m d"], Int[Tensor, " m"]]:
        """The vectors at tokens of texts in this layout, and those tokens; less than 0 for filling."""
        if isinstance(texts, Sequences):
            real = texts.real()
            return x[real], texts.tokens[real]
        if self.packing is not None and texts.filled:
            return x, torch.where(self.packing.real, texts.tokens, -1)
        return x, texts.tokens

    def encoded(self, x: Float[Tensor, "*b n d"]) -> "Encoded":
        """Vectors of sequences in this layout."""
        return Encoded(x, self.lengths, self.packing)


@dataclass(frozen=True, eq=False)
class Encoded:
    """Sequences of vectors, one a row, filled up at the right; or all in one row, [n, d], where they are packed."""

    vectors: Float[Tensor, "*b n d"]
    lengths: Int[Tensor, " b"]
    packing: Packing | None = None

    @property
    def layout(self) -> Layout:
        """Padded, or packed."""
        return Layout(self.lengths, self.packing)

    def in_rows(self) -> "Encoded":
        """The same with every sequence in a row of its own."""
        return self if self.packing is None else Encoded(self.packing.in_rows(self.vectors), self.lengths)

    @classmethod
    def full(cls, vectors: Float[Tensor, "b n d"]) -> "Encoded":
        """Sequences without padding."""
        return cls(vectors, vectors.new_full(vectors.shape[:1], vectors.shape[1]).long())

    def real(self) -> Bool[Tensor, "b n"]:
        """Where there is no padding."""
        return torch.arange(self.vectors.shape[1], device=self.lengths.device) < self.lengths[:, None]

    def pooled(self, how: Pooling, asking: AttentionPooling | None = None) -> Float[Tensor, "b d"]:
        """Each sequence as one vector; `asking` are the learned questions of pooling by attention."""
        if self.packing is not None:
            return self.in_rows().pooled(how, asking)
        if how == "first":
            return self.vectors[:, 0]
        if how == "mean":
            return mean_pooling(self.vectors, self.lengths)
        if asking is None:
            raise RegardError("pooling='attention' without an AttentionPooling to ask the questions")
        return asking(self.vectors, mask=lengths(keys=self.lengths))[:, 0]


def through(
    blocks: Iterable[nn.Module], x: Float[Tensor, "*b n d"], mask: Mask | None
) -> Float[Tensor, "*b n d"]:
    """x after some blocks, which share what is worked out for the mask."""
    mask = None if mask is None else mask.shared()
    for block in blocks:
        x = block(x, mask=mask)
    return x


def readable(texts: Texts, embedding: Embedding) -> Int[Tensor, "*b n"]:
    """The tokens of texts, if a table has all of them and their lengths fit; or say what is wrong."""
    instance(
        "batch",
        texts,
        (Sequences, Packed),
        "give Sequences or Packed texts, such as Sequences.of([[4, 5], [6]])",
    )
    tokens = integers("tokens", texts.tokens, 2 if isinstance(texts, Sequences) else 1)
    lengths = integers("lengths", texts.lengths, 1)
    words = embedding.table.shape[0]
    _same_device(tokens, embedding)
    if isinstance(texts, Sequences) and len(lengths) != len(tokens):
        raise RegardError(f"{len(tokens)} rows of tokens and {len(lengths)} lengths: one length a row")
    if torch.compiler.is_compiling() or capturing(tokens):
        return tokens
    on_host = tokens.device.type == "cpu"
    spans = Spans.of(tokens, lengths) if on_host or texts.spans is None else texts.spans
    if not 0 <= spans.tokens[0] <= spans.tokens[1] < words:
        wrong = spans.tokens[0] if spans.tokens[0] < 0 else spans.tokens[1]
        raise RegardError(
            f"token {wrong}: the table has {words:,}, from 0 to {words - 1:,}; use the model's own tokenizer"
        )
    room = tokens.shape[-1]
    if not 0 <= spans.lengths[0] <= spans.lengths[1] <= room and len(lengths):
        raise RegardError(
            f"lengths from {spans.lengths[0]} to {spans.lengths[1]}: from 0 to {room}, the tokens of a row"
        )
    if isinstance(texts, Packed):
        fits = spans.total <= room if texts.filled else spans.total == room
        if (
            not fits
            or not (texts.filled or texts.shortest <= spans.lengths[0])
            or not spans.lengths[1] <= texts.longest
        ):
            raise RegardError(
                f"packed lengths from {spans.lengths[0]} to {spans.lengths[1]}, {spans.total} together, in a row of {room} "
                f"tokens, said to be from {texts.shortest} to {texts.longest}: make them with Packed.of"
            )
    return tokens


def pictures(images: Any) -> Images:
    """Pictures, if they are."""
    given = instance("images", images, Images, "give Images(pixels), numbers from 0 to 1")
    vectors("pixels", given.pixels, axes=4)
    return given


def recordings(sounds: Any) -> Sounds:
    """Recordings, if they are, with as many lengths."""
    given = instance("sounds", sounds, Sounds, "give Sounds(samples, lengths), numbers from −1 to 1")
    samples, lengths = vectors("samples", given.samples, axes=2), integers("lengths", given.lengths, 1)
    if samples.ndim != 2 or len(samples) != len(lengths):
        raise RegardError(
            f"samples {shown(samples)} and {len(lengths)} lengths: one row and one length a recording"
        )
    return given


def pairs(batch: Any) -> Pairs[Any, Any]:
    """A batch, if it is of sources and targets."""
    return instance("batch", batch, Pairs, "give sources and targets together, Pairs(source, target)")


def labelled(batch: Any) -> Labelled[Any]:
    """A batch, if it is of inputs and labels."""
    return instance("batch", batch, Labelled, "give inputs and labels together, Labelled(inputs, labels)")


def readable_labels(batch: Labelled[Any], classes: int) -> Int[Tensor, " b"]:
    """The labels of a batch, if there are so many classes; or say what is wrong."""
    labels = integers("labels", labelled(batch).labels, 1)
    if len(labels) != len(batch.inputs):
        raise RegardError(f"{len(batch.inputs)} inputs and {len(labels)} labels: one label an input")
    if torch.compiler.is_compiling() or capturing(labels):
        return labels
    on_host = labels.device.type == "cpu"
    least, most = span_of(labels) if on_host or batch.span is None else batch.span
    if not 0 <= least <= most < classes:
        raise RegardError(
            f"label {least if least < 0 else most}: there are {classes} classes, from 0 to {classes - 1}"
        )
    return labels


def following(tokens: Any, state: Any, kind: type[Any]) -> Int[Tensor, " rows"]:
    """The tokens of a step, one a row of a state of this kind."""
    instance("state", state, kind, "give the state that `start` or the last step returned")
    tokens, rows = integers("tokens", tokens, 1), state.rows
    if len(tokens) != rows:
        raise RegardError(f"{len(tokens)} tokens for {rows} rows: a step takes one a row")
    return tokens


def _same_device(given: Tensor, module: nn.Module) -> None:
    own = next(module.parameters()).device
    if given.device != own:
        raise RegardError(
            f"the batch is on {given.device} and the model on {own}: batch.to({str(own)!r}), or model.to(…)"
        )


class Spent:
    """Says once that a state was stepped from. A second step from it would see a past that is not its own."""

    def __init__(self) -> None:
        self._spent = False

    def spend(self) -> None:
        """Mark, or refuse."""
        self.check()
        self._spent = True

    def check(self) -> None:
        """Refuse if it was."""
        if self._spent:
            raise RegardError(
                "this state was stepped from before: use the state that step returned, or pick rows first"
            )
