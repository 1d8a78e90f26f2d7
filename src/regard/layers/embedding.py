"""Tokens as vectors."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.data.given import integers, whole
from regard.errors import RegardError
from regard.layers.dropout import Dropout
from regard.layers.positions import Offset, Positions, Tabled


class Embedding(nn.Module):
    """√d · E[token] + position (Vaswani 2017, section 3.4): rows of unit length, scaled to unit parts."""

    def __init__(
        self, vocabulary: int, width: int, *, positions: Positions | None = None, dropout: float = 0.0
    ) -> None:
        super().__init__()
        whole("vocabulary", vocabulary, least=1)
        whole("width", width, least=1)
        self.table = nn.Parameter(torch.randn(vocabulary, width) / math.sqrt(width))
        self.positions = positions
        self.dropout = Dropout(dropout)

    def forward(self, tokens: Int[Tensor, "*b n"], *, offset: Offset = 0) -> Float[Tensor, "*b n d"]:
        """The vectors of tokens of which the first has position `offset`, or one offset a row.

        A token that the table does not have is refused on a CPU. On a GPU its vector is NaN: to refuse it the host would
        have to wait, and to ask for its row would end all use of the GPU.
        """
        x = _rows(integers("tokens", tokens), self.table)
        return self.dropout(x if self.positions is None else self.positions.add(x, offset=offset))

    def reaches(self, count: int) -> bool:
        """Whether the first `count` positions are known."""
        known = None if self.positions is None else self.positions.count
        return known is None or count <= known

    def placed(self, at: Int[Tensor, " 1"], *, count: int) -> Tabled:
        """The position that a tensor names, one of the first `count`, with the vectors of all of them at hand."""
        first = self.table[:0] if self.positions is None else self.positions.first(count, self.table)
        return Tabled(at, first)


def _rows(tokens: Int[Tensor, "*b n"], table: Float[Tensor, "words d"]) -> Float[Tensor, "*b n d"]:
    """√d · E[token]."""
    scale = math.sqrt(table.shape[-1])
    if not table.is_cuda:
        try:
            return nn.functional.embedding(tokens, table) * scale
        except IndexError:
            wrong = tokens[(tokens < 0) | (tokens >= len(table))]
            raise RegardError(
                f"token {int(wrong[0])}: the table has {len(table):,}, from 0 to {len(table) - 1:,}; use the model's own "
                "tokenizer"
            ) from None
    known = tokens.clamp(0, len(table) - 1)
    wide = torch.promote_types(table.dtype, torch.float32)  # as precise as a product with a number
    factor = torch.full_like(tokens, scale, dtype=wide).masked_fill(known != tokens, torch.nan)
    return (nn.functional.embedding(known, table) * factor[..., None]).to(table.dtype)
