"""Tokens as vectors."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.layers.dropout import Dropout
from regard.layers.positions import Offset, Positions, Tabled


class Embedding(nn.Module):
    """√d · E[token] + position (Vaswani 2017, section 3.4): rows of unit length, scaled to unit parts."""

    def __init__(
        self, vocabulary: int, width: int, *, positions: Positions | None = None, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(vocabulary, width) / math.sqrt(width))
        self.positions = positions
        self.dropout = Dropout(dropout)

    def forward(self, tokens: Int[Tensor, "*b n"], *, offset: Offset = 0) -> Float[Tensor, "*b n d"]:
        """The vectors of tokens of which the first stands at `offset`, or one offset a row."""
        x = nn.functional.embedding(tokens, self.table) * math.sqrt(self.table.shape[-1])
        return self.dropout(x if self.positions is None else self.positions.add(x, offset=offset))

    def placed(self, at: Int[Tensor, " 1"], *, count: int) -> Tabled:
        """The position that a tensor names, one of the first `count`, with the vectors of all of them at hand."""
        first = self.table[:0] if self.positions is None else self.positions.first(count, self.table)
        return Tabled(at, first)
