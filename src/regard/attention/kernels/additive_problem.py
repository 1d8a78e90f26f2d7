"""A call of additive attention as its Triton kernels take it: rows prepared, strides counted, work cut to size."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.attention.kernels.additive_tiles import prepare_kernel
from regard.attention.kernels.triton_available import TRITON_INTERPRETED

# Slopes that the backward pass holds at a time: 128 MB of float32. What they say of the keys takes four times as much
# where there are 128 hidden units, so where there are more, slopes are fewer.
BUDGET = 1 << 25
EIGHT = 8  # hidden units are filled up to a multiple of it
_FAR = 1 << 30  # where a band has no limit

HARDWARE = not TRITON_INTERPRETED  # the interpreter knows no machine instructions


@dataclass(frozen=True)
class Tiling:
    """How scores are cut for the chip. Nothing but speed and the order of sums depends on it."""

    queries: int  # of a tile: each thread holds all of them, for some of the keys
    keys: int
    warps: int
    unroll: int  # pairs of hidden units in one turn of the loop
    registers: int | None


# The fastest of those tried on an H200.
FORWARD = Tiling(queries=16, keys=256, warps=4, unroll=2, registers=168)
BACKWARD = Tiling(queries=32, keys=128, warps=4, unroll=2, registers=128)


@dataclass(frozen=True)
class Rows:
    """Mapped queries or keys as the kernels read them, filled up to whole tiles.

    Scores want them hidden unit by hidden unit, [entries, width, padded], and gradients also row by row.
    """

    exponential: Tensor  # exp(2x)
    plain: Tensor  # x
    size: Tensor  # max |2x| / ln 2 over the hidden units, [entries, padded]
    width: int  # the hidden units, filled up
    padded: int  # the length, filled up

    @classmethod
    def of(cls, x: Tensor, tile: int, *, by_row: bool) -> "Rows":
        """From x [b, h, length, hidden] with any strides."""
        batch, heads, length, hidden = x.shape
        paired, entries = x.dtype != torch.float32, batch * heads
        padded, width = whole(length, tile), whole(hidden, EIGHT)
        plain = x.new_empty(2 if by_row else 1, entries * padded * width)
        exponential = torch.empty_like(plain, dtype=torch.float32) if paired else plain
        size = x.new_empty(entries, padded, dtype=torch.float32) if paired else plain
        prepare_kernel[(entries, padded // 32)](
            x, plain, exponential, size, heads, length, hidden, padded, width, entries * padded * width,
            *x.stride(), BY_ROW=by_row, PAIRED=paired, ROWS=32, COLUMNS=32,
        )  # fmt: skip
        return cls(exponential, plain, size, width, padded)

    @property
    def by_unit(self) -> tuple[Tensor, Tensor, Tensor]:
        """As the kernels of scores take them."""
        return self.exponential, self.plain, self.size

    @property
    def by_row(self) -> tuple[Tensor, Tensor, Tensor]:
        """As the kernel of gradients takes them."""
        return self.exponential[1], self.plain[1], self.size


@dataclass(frozen=True)
class Problem:
    """Additive attention of [b, h, q, r] over [b, g, k, r], with the vector as [h, r]."""

    query: Tensor
    key: Tensor
    vector: Tensor
    rest: Tensor | None = None  # which pairs are open apart from the band, [b, h, q, k]
    bias: Tensor | None = None  # [b, h, q, k]
    seed: Tensor | None = None  # of the weights that are dropped
    low: int | None = None
    high: int | None = None
    scale: float = 1.0
    dropout: float = 0.0
    backward: bool = False
    tiling: Tiling = FORWARD

    @property
    def keys(self) -> int:
        """How many keys a tile of scores has: fewer where there are few."""
        return max(32, min(self.tiling.keys, power_of_two(self.key.shape[-2])))

    @property
    def warps(self) -> int:
        """How many warps share a tile of scores."""
        return max(1, self.tiling.warps * self.keys // self.tiling.keys)

    @property
    def registers(self) -> int | None:
        """The most that a thread may have; in float32, where a tanh takes many, what the compiler wants."""
        return self.tiling.registers if self.paired else None

    @cached_property
    def rows(self) -> tuple[Rows, Rows]:
        """Queries and keys, prepared."""
        return Rows.of(self.query, 32, by_row=self.backward), Rows.of(
            self.key, self.keys, by_row=self.backward
        )

    @cached_property
    def weight(self) -> Tensor:
        """v for every head, filled up with zeros."""
        missing = self.rows[0].width - self.vector.shape[-1]
        vector = self.vector.float().contiguous()  # heads may share one
        return F.pad(vector, (0, missing)) if missing else vector

    @property
    def band(self) -> tuple[int, int]:
        """The limits of key − query."""
        return (-_FAR if self.low is None else self.low, _FAR if self.high is None else self.high)

    @property
    def groups(self) -> int:
        """How many heads share a key."""
        return self.query.shape[1] // self.key.shape[1]

    @property
    def paired(self) -> bool:
        """Whether two hidden units share a reciprocal, which is too rough for float32."""
        return self.query.dtype != torch.float32

    def given(self, value: Tensor) -> tuple[list[Any], list[Any], dict[str, Any]]:
        """What the kernels that know about values and masks take: tensors, numbers, and flags."""
        queries, keys = self.rows
        optional = [None if self.rest is None else self.rest.view(torch.uint8), self.bias]
        seed = queries.plain if self.seed is None else self.seed
        tensors = [*queries.by_unit, *keys.by_unit, self.weight, value]
        tensors += [queries.plain if part is None else part for part in optional] + [seed]
        sizes = [self.query.shape[1], self.groups, self.query.shape[2], self.key.shape[2], queries.width]
        numbers = [*sizes, queries.padded, keys.padded, value.shape[-1], *self.band, self.scale]
        numbers += [self.dropout, 0.0 if self.dropout >= 1 else 1 / (1 - self.dropout)]
        for part in (value, *optional):
            numbers += (0, 0, 0, 0) if part is None else part.stride()
        flags = {
            "HAS_REST": self.rest is not None,
            "HAS_BIAS": self.bias is not None,
            "DROPS": self.dropout > 0,
        }
        return (
            tensors,
            numbers,
            {**flags, "PAIRED": self.paired, "HARDWARE": HARDWARE, "UNROLL": self.tiling.unroll},
        )

    def chunks(self) -> Iterator[tuple[slice, slice, slice]]:
        """Entries of the batch, queries, and keys that they may look at, whose slopes fit in BUDGET together."""
        (batch, heads, queries, _), keys, (low, high) = self.query.shape, self.key.shape[2], self.band
        budget = max(BUDGET * 128 // (heads * max(self.query.shape[-1], 128)), 1)
        tall = queries if budget // keys >= queries else max(128, budget // keys // 128 * 128)
        wide = whole(budget // tall, 128)
        together = max(1, budget // (keys * queries))
        for first, start in product(range(0, batch, together), range(0, queries, tall)):
            stop = min(start + tall, queries)
            begin, end = max(0, start + low) // 128 * 128, min(keys, stop + high)
            for column in range(begin, end, wide):
                yield (
                    slice(first, min(first + together, batch)),
                    slice(start, stop),
                    slice(column, min(column + wide, end)),
                )


def whole(size: int, step: int) -> int:
    """The least multiple of a step that is not smaller, and not zero."""
    return max(step, -(-size // step) * step)


def power_of_two(size: int) -> int:
    """The least power of two that is not smaller. Triton has its own, which is slower to call."""
    return 1 << (size - 1).bit_length()
