"""The layout of the texts of a batch: one a row, padded, or packed end to end. Blocks only see the masks."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.masks import Mask, causal, lengths
from regard.attention.packed_mask import packed
from regard.attention.packing import Packing
from regard.data.batches import Packed, Sequences, Texts
from regard.errors import RegardError
from regard.layers.positions import Offset, Placed
from regard.models.targets import decoder_input, packed_decoder_input


class Layout(ABC):
    """The positions of tokens in their sequences, and the masks."""

    @property
    @abstractmethod
    def offset(self) -> Offset:
        """The positions of the tokens."""

    def sanitised(self, x: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b n d"]:
        """The vectors of some texts, as those must be that masks of this layout are for."""
        return x

    @abstractmethod
    def own(self) -> Mask:
        """Every sequence sees itself."""

    @abstractmethod
    def asking(self, memory: "Layout") -> Mask:
        """Every sequence sees its memory."""

    def back(self) -> Mask:
        """Every sequence sees itself, up to the position that looks."""
        return causal() & self.own()


@dataclass(frozen=True, eq=False)
class Padded(Layout):
    """One sequence a row."""

    lengths: Int[Tensor, " b"]

    @property
    def offset(self) -> Offset:
        """At the beginning of their rows."""
        return 0

    def own(self) -> Mask:
        """The real positions of a row see each other."""
        return lengths(self.lengths)

    def asking(self, memory: Layout) -> Mask:
        """The real positions of the memory are seen."""
        if not isinstance(memory, Padded):
            raise RegardError("a padded target and a packed source: pack both, or neither")
        return lengths(keys=memory.lengths)


@dataclass(frozen=True, eq=False)
class InOneRow(Layout):
    """All sequences in one row."""

    packing: Packing

    @property
    def offset(self) -> Offset:
        """Positions in the sequence of each token."""
        return Placed(self.packing.places, self.packing.longest)

    def sanitised(self, x: Float[Tensor, "*b n d"]) -> Float[Tensor, "*b n d"]:
        """Zeros for filling: once, rather than in every block."""
        return torch.where(self.packing.real[:, None], x, 0.0) if self.packing.filled else x

    @cached_property
    def _own(self) -> Mask:
        return packed(self.packing)

    def own(self) -> Mask:
        """The positions of a sequence see each other."""
        return self._own

    def asking(self, memory: Layout) -> Mask:
        """The n-th sequence sees the n-th of the memory."""
        if not isinstance(memory, InOneRow):
            raise RegardError("a packed target and a source that is not: pack both, or neither")
        return packed(memory.packing, queries=self.packing)


def layout_of(texts: Texts) -> Layout:
    """The layout of some texts."""
    if isinstance(texts, Sequences):
        return Padded(texts.lengths)
    return InOneRow(packing_of(texts))


def packing_of(texts: Packed) -> Packing:
    """The layout of packed texts, from numbers that need no synchronisation. Their vectors are to be `sanitised`."""
    size = texts.tokens.shape[0]
    return Packing(texts.lengths, size, texts.longest, texts.shortest, texts.filled, clean=True)


def read_late(target: Texts, layout: Layout) -> Int[Tensor, "*b t"]:
    """What a decoder reads before it writes each token of the target."""
    if isinstance(target, Sequences):
        return decoder_input(target)
    if not isinstance(layout, InOneRow):
        raise RegardError("packed texts lie in one row")
    return packed_decoder_input(target.tokens, layout.packing)


def to_learn(
    x: Float[Tensor, "*b n d"], texts: Texts, layout: Layout
) -> tuple[Float[Tensor, "m d"], Int[Tensor, " m"]]:
    """The vectors that have something to say, and what; less than 0: nothing, for filling."""
    if isinstance(texts, Sequences):
        real = texts.real()
        return x[real], texts.tokens[real]
    if isinstance(layout, InOneRow) and texts.filled:
        return x, torch.where(layout.packing.real, texts.tokens, -1)
    return x, texts.tokens
