"""What an encoder says, of whatever sense: vectors in a row, some of them padding."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.masks import Mask, lengths
from regard.attention.packing import Packing
from regard.errors import RegardError
from regard.layers.pooling import AttentionPooling, mean_pooling
from regard.models.layout import InOneRow, Layout, Padded

Pooling = Literal["attention", "mean", "first"]


@dataclass(frozen=True, eq=False)
class Encoded:
    """Sequences of vectors, one a row, filled up at the right; or all in one row, [n, d], where they are packed."""

    vectors: Float[Tensor, "*b n d"]
    lengths: Int[Tensor, " b"]
    packing: Packing | None = None

    @property
    def layout(self) -> Layout:
        """Padded, or packed."""
        return Padded(self.lengths) if self.packing is None else InOneRow(self.packing)

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


def encoded(vectors: Float[Tensor, "*b n d"], layout: Layout) -> Encoded:
    """Vectors of sequences in this layout."""
    if isinstance(layout, InOneRow):
        return Encoded(vectors, layout.packing.lengths, layout.packing)
    if isinstance(layout, Padded):
        return Encoded(vectors, layout.lengths)
    raise RegardError(f"a {type(layout).__name__}: texts are padded or lie in one row")


def through(
    blocks: Iterable[nn.Module], x: Float[Tensor, "*b n d"], mask: Mask | None
) -> Float[Tensor, "*b n d"]:
    """x after some blocks."""
    for block in blocks:
        x = block(x, mask=mask)
    return x
