"""Tokens as vectors, and their positions as vectors of the same width.

A scheme turns position numbers into vectors, the same for a position whatever the length of the sequence. The
vectors are added to the embeddings (`add`) or laid beside them as extra features (`concatenate`). Positions that
act on queries and keys are in `rotary`, those of pictures in `grid_positions`; those that act on scores are biases
(`regard.attention.biases`).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.data.batches import span_of
from regard.data.given import integers, vectors, whole
from regard.errors import RegardError
from regard.layers.blocks import Dropout


@dataclass(frozen=True, eq=False)
class Placed:
    """A position for each vector, as in packed sequences, and one beyond the largest."""

    places: Int[Tensor, " n"]
    end: int


@dataclass(frozen=True, eq=False)
class Tabled:
    """One position, that a tensor names, and the vectors of all it may be: nothing is worked out at a step."""

    at: Int[Tensor, " 1"]
    vectors: Float[Tensor, "positions d"]


# The first position, for all rows or for each. Positions below 0 are padding, and become 0.
Offset = int | Int[Tensor, " rows"] | Placed | Tabled


class Positions(nn.Module, ABC):
    """A vector of `width` numbers for each position."""

    def __init__(self, width: int) -> None:
        super().__init__()
        whole("width", width, least=1)
        self.width = width

    @property
    def count(self) -> int | None:
        """How many positions have a vector; None: all."""
        return None

    @abstractmethod
    def forward(self, positions: Int[Tensor, "*n"]) -> Float[Tensor, "*n width"]:
        """The vectors of these positions."""

    def add(self, x: Float[Tensor, "*b n width"], *, offset: Offset = 0) -> Float[Tensor, "*b n width"]:
        """x + p, where the first of x has position `offset`."""
        x = vectors("x", x, self.width, axes=2)
        return x + self._at(x, offset)

    def concatenate(
        self, x: Float[Tensor, "*b n d"], *, offset: Offset = 0
    ) -> Float[Tensor, "*b n d+{self.width}"]:
        """[x, p]: the positions as extra features."""
        x = vectors("x", x, axes=2)
        return torch.cat([x, self._at(x, offset).expand(*x.shape[:-1], -1)], dim=-1)

    def first(self, count: int, like: Tensor) -> Float[Tensor, "{count} width"]:
        """The vectors of the first positions, with the type and device of another tensor. Weights are not copied."""
        return self._of(like.new_empty(count, self.width), 0)

    def _at(self, x: Tensor, offset: Offset) -> Tensor:
        """The vectors beside those of x, from a table where there is one."""
        if isinstance(offset, Tensor):
            integers("offset", offset, 1)
        elif not isinstance(offset, Placed | Tabled):
            whole("offset", offset, least=0)
        return offset.vectors[offset.at] if isinstance(offset, Tabled) else self._of(x, offset)

    def _of(self, x: Tensor, offset: Offset) -> Tensor:
        return self(_numbers(x, offset)).to(x.dtype)


def _numbers(x: Tensor, offset: Offset) -> Tensor:
    """The position numbers of x, [n] or, when rows begin at offsets of their own, [rows, n]."""
    if isinstance(offset, Tabled):
        return offset.at
    if isinstance(offset, Placed):
        return offset.places
    if isinstance(offset, int):
        return torch.arange(offset, offset + x.shape[-2], device=x.device)
    return (offset[:, None] + torch.arange(x.shape[-2], device=x.device)).clamp_min(0)


class Sinusoidal(Positions):
    """p[2i] = sin(t / 10000^(2i/d)), p[2i+1] = cos(t / 10000^(2i/d)) (Vaswani 2017, section 3.5)."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self._first_rows = FirstRows()

    def forward(self, positions: Int[Tensor, "*n"]) -> Float[Tensor, "*n width"]:
        """Sines at even features, cosines at odd ones."""
        half = torch.arange((self.width + 1) // 2, device=positions.device, dtype=torch.float64)
        angle = positions[..., None] * torch.exp(half * (-2 * math.log(10000.0) / self.width))
        waves = rearrange([angle.sin(), angle.cos()], "wave ... half -> ... (half wave)")
        return waves[..., : self.width].float()

    def _of(self, x: Tensor, offset: Offset) -> Tensor:
        if isinstance(offset, Placed):  # tokens are many, positions few
            return self(torch.arange(max(offset.end, 1), device=x.device)).to(x.dtype)[offset.places]
        if not isinstance(offset, int) or torch.compiler.is_compiling() or capturing(x):
            return super()._of(x, offset)
        last = offset + x.shape[-2]
        return self._first_rows(lambda positions: self(positions).to(x.dtype), last, x)[offset:last]


class FirstRows:
    """A table of the first positions, kept because decoding asks for one of them at every step.

    Made anew where it is too short, or for another type or device. No buffer of its module: in a model that becomes
    bfloat16 a buffer would lose its digits.
    """

    def __init__(self) -> None:
        self._known: tuple[torch.dtype, torch.device, Tensor] | None = None

    def __call__(self, make: Callable[[Tensor], Tensor], last: int, like: Tensor) -> Tensor:
        """At least `last` rows, for vectors like these; `make` computes those of some positions."""
        known = self._known
        if known is None or known[:2] != (like.dtype, like.device) or len(known[2]) < last:
            size = max(64, 1 << (last - 1).bit_length())  # few tables, of doubled lengths
            with torch.inference_mode(False):  # a table made inside it could not be used in training
                known = like.dtype, like.device, make(torch.arange(size, device=like.device))
            self._known = known
        return known[2]


def capturing(x: Tensor) -> bool:
    """Whether a CUDA graph is being captured on the GPU of x: what it reads must live as long as the graph, as this table need not."""
    return x.is_cuda and torch.cuda.is_current_stream_capturing()


class Learned(Positions):
    """A table of `count` vectors, trained (Gehring 2017). Nothing is known beyond its end."""

    def __init__(self, width: int, *, count: int) -> None:
        super().__init__(width)
        self.table = nn.Parameter(torch.randn(count, width) * 0.02)

    @property
    def count(self) -> int:
        """The rows of the table."""
        return self.table.shape[0]

    def forward(self, positions: Int[Tensor, "*n"]) -> Float[Tensor, "*n width"]:
        """The rows of the table."""
        if not (torch.compiler.is_compiling() or capturing(positions)):
            first, last = span_of(positions)
            self._check(first, last + 1)
        return self.table[positions]

    def _of(self, x: Tensor, offset: Offset) -> Tensor:
        if isinstance(offset, Placed):
            end = offset.end
        elif isinstance(offset, Tabled):
            end = offset.vectors.shape[0]
        else:
            end = x.shape[-2] + int(offset if isinstance(offset, int) else offset.max())
        self._check(0, end)
        rows = self.table[offset:end] if isinstance(offset, int) else self.table[_numbers(x, offset)]
        return rows.to(x.dtype)

    def _check(self, first: int, end: int) -> None:
        count = self.table.shape[0]
        if first < 0:
            raise RegardError(f"position {first}: the first is 0")
        if end > count:
            raise RegardError(
                f"{end} positions, but only {count} were learned: shorten the input, or train with a larger count"
            )


class Gaussian(Positions):
    """Fourier features whose dot product falls like a bell: φ(i)·φ(j) ≈ exp(−λ (i − j)²), and ‖φ(i)‖ = 1.

    A bell is the average of cos(ω δ) over normally distributed ω (Rahimi 2007, theorem 1). The average is taken
    at m = width / 2 evenly spaced ω, which is exact but for two errors: the tail of ω that is cut off, and the
    bell coming round again after 2π / spacing. The spacing chosen here makes the two equal at `horizon`, the
    largest distance that matters; `tolerance` bounds the error for all distances up to it.
    """

    def __init__(self, width: int, *, decay: float = 0.01, horizon: int = 256) -> None:
        super().__init__(width)
        if width % 2 or not decay > 0 or horizon < 1:
            raise RegardError(
                f"Gaussian(width={width}, decay={decay}, horizon={horizon}): an even width, a positive decay and "
                "a horizon of at least 1"
            )
        m = width // 2
        reach = decay * horizon
        self.decay = decay
        self.spacing = (math.sqrt(reach**2 + 4 * math.pi * decay * m) - reach) / m
        self.tolerance = 4 * math.exp(-((m * self.spacing) ** 2) / (4 * decay))

    def forward(self, positions: Int[Tensor, "*n"]) -> Float[Tensor, "*n width"]:
        """√share · [cos(ω t), sin(ω t)]."""
        half = torch.arange(self.width // 2, device=positions.device, dtype=torch.float64)
        frequencies = (half + 0.5) * self.spacing
        share = torch.softmax(-(frequencies**2) / (4 * self.decay), 0)
        angle = positions[..., None] * frequencies
        return (torch.cat([angle.cos(), angle.sin()], dim=-1) * share.sqrt().repeat(2)).float()


class Embedding(nn.Module):
    """√d · E[token] + position (Vaswani 2017, section 3.4): rows of unit length, scaled to unit parts.

    Positions are added, or concatenated: [√d · E[token], position], as wide as both together.
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,  # of the table
        *,
        positions: Positions | None = None,
        join: Literal["add", "concatenate"] = "add",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        whole("vocabulary", vocabulary, least=1)
        whole("width", width, least=1)
        self.table = nn.Parameter(torch.randn(vocabulary, width) / math.sqrt(width))
        if join not in ("add", "concatenate"):
            raise RegardError(f"join={join!r}: one of 'add', 'concatenate'")
        self.positions = positions
        self.join = join
        self.dropout = Dropout(dropout)

    def forward(self, tokens: Int[Tensor, "*b n"], *, offset: Offset = 0) -> Float[Tensor, "*b n d"]:
        """The vectors of tokens of which the first has position `offset`, or one offset a row.

        A token that the table does not have is refused on a CPU. On a GPU its vector is NaN: to refuse it the host would
        have to wait, and to ask for its row would end all use of the GPU.
        """
        x = _rows(integers("tokens", tokens), self.table)
        if self.positions is not None:
            join = self.positions.add if self.join == "add" else self.positions.concatenate
            x = join(x, offset=offset)
        return self.dropout(x)

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
