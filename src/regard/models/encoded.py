"""What an encoder says, of whatever sense: vectors in a row, some of them padding."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.masks import lengths
from regard.errors import RegardError
from regard.layers.pooling import AttentionPooling, mean_pooling

Pooling = Literal["attention", "mean", "first"]


@dataclass(frozen=True, eq=False)
class Encoded:
    """Sequences of vectors, filled up at the right."""

    vectors: Float[Tensor, "b n d"]
    lengths: Int[Tensor, " b"]

    @classmethod
    def full(cls, vectors: Float[Tensor, "b n d"]) -> "Encoded":
        """Sequences without padding."""
        return cls(vectors, vectors.new_full(vectors.shape[:1], vectors.shape[1]).long())

    @property
    def real(self) -> Bool[Tensor, "b n"]:
        """Where there is no padding."""
        return torch.arange(self.vectors.shape[1], device=self.lengths.device) < self.lengths[:, None]

    def pooled(self, how: Pooling, asking: AttentionPooling | None = None) -> Float[Tensor, "b d"]:
        """Each sequence as one vector; `asking` are the learned questions of pooling by attention."""
        if how == "first":
            return self.vectors[:, 0]
        if how == "mean":
            return mean_pooling(self.vectors, self.lengths)
        if asking is None:
            raise RegardError("pooling='attention' without an AttentionPooling to ask the questions")
        return asking(self.vectors, mask=lengths(keys=self.lengths))[:, 0]


def through(
    blocks: Iterable[nn.Module], x: Float[Tensor, "b n d"], real: Int[Tensor, " b"] | None
) -> Float[Tensor, "b n d"]:
    """x after some blocks that look both ways, at its first `real` positions; None: at all."""
    for block in blocks:
        x = block(x, mask=None if real is None else lengths(real))
    return x
