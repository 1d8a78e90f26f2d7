"""Packing: sequences one after another in one row, and each taken out of it into a row of its own and back."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.data.given import integers
from regard.errors import RegardError

_LEAST, _MOST = 8, 4  # sequences in a group; groups


@dataclass(frozen=True, eq=False)
class RowGroups:
    """Groups of rows of one length each, laid end to end, and the slot of every packed position among them.

    A slot is taken once, so neither way adds anything up: both passes are copies.
    """

    slots: Int[Tensor, " size"]
    real: Bool[Tensor, " size"] | None  # None: there is no filling
    shapes: Sequence[tuple[int, int]]  # rows of each group, and how long they are

    @classmethod
    def of(
        cls,
        owners: Int[Tensor, " size"],
        places: Int[Tensor, " size"],
        real: Bool[Tensor, " size"] | None,
        groups: Sequence[Sequence[int]],
        longest: Sequence[int],
    ) -> "RowGroups":
        """These groups of sequences, in rows of these lengths; which sequence each position is of, and its place in it."""
        shapes = [(len(group), width) for group, width in zip(groups, longest, strict=True)]
        total = sum(rows * width for rows, width in shapes)
        first = [0] * (sum(map(len, groups)) + 1)
        start = 0
        for group, width in zip(groups, longest, strict=True):
            for sequence in group:
                first[sequence] = start
                start += width
        first[-1] = total  # of filling: one slot beyond all
        begins = torch.tensor(first, device=owners.device)
        return cls(begins[owners] + places, real, shapes)

    @property
    def count(self) -> int:
        """How many slots there are."""
        return sum(rows * width for rows, width in self.shapes)

    def spread(self, x: Float[Tensor, "size *d"]) -> list[Tensor]:
        """The groups, [rows, length, …] each."""
        flat: Tensor = _Scatter.apply(x, self)  # type: ignore[no-untyped-call]
        parts = torch.split(flat, [rows * width for rows, width in self.shapes])
        return [part.reshape(*shape, *part.shape[1:]) for part, shape in zip(parts, self.shapes, strict=True)]

    def gathered(self, groups: Sequence[Tensor]) -> Tensor:
        """The positions in one row again; zeros for filling."""
        flat = [group.flatten(0, 1) for group in groups]
        whole = flat[0] if len(flat) == 1 else torch.cat(flat)
        found: Tensor = _Gather.apply(whole, self)  # type: ignore[no-untyped-call]
        return found


@dataclass(frozen=True, eq=False)
class Packing:
    """The places of sequences in a row of `size` positions. What is left behind the last of them is padding.

    Numbers that would need a synchronisation on a GPU are given: `longest`, `shortest`, and whether there is padding.
    """

    lengths: Int[Tensor, " s"]
    size: int
    longest: int
    shortest: int
    filled: bool
    clean: bool = False  # filling holds nothing but numbers, so that what is multiplied by 0 there is 0

    @classmethod
    def of(cls, lengths: Int[Tensor, " s"], *, size: int | None = None) -> "Packing":
        """Sequences of these lengths, in a row of `size` positions or in one that just holds them."""
        lengths = integers("packed lengths", lengths, 1)
        each: list[int] = lengths.tolist()
        total = sum(each)
        if min(each, default=0) < 0 or (size is not None and size < total):
            raise RegardError(
                f"sequences of {total} positions, the shortest of {min(each)}, in a row of {size}"
            )
        size = total if size is None else size
        return cls(lengths, size, max(each, default=0), min(each, default=0), size > total)

    @cached_property
    def starts(self) -> Int[Tensor, " s"]:
        """The first position of each sequence."""
        return self.lengths.cumsum(0) - self.lengths

    @cached_property
    def owners(self) -> Int[Tensor, " size"]:
        """The sequence of each position; filling belongs to one more than there are."""
        places = torch.arange(self.size, device=self.lengths.device)
        return torch.searchsorted(self.lengths.cumsum(0), places, right=True)

    @cached_property
    def places(self) -> Int[Tensor, " size"]:
        """The position of each within its sequence, from 0; that of filling is 0."""
        row = torch.arange(self.size, device=self.lengths.device)
        place = row - self.at_owner(self.starts)
        return torch.where(self.real, place, 0) if self.filled else place

    @cached_property
    def real(self) -> Bool[Tensor, " size"]:
        """Which positions are not filling."""
        return self.owners < self.lengths.shape[0]

    @cached_property
    def row_groups(self) -> RowGroups:
        """All sequences in rows of one length."""
        return self._row_groups([list(range(self.rows))], [self.longest])

    def at_owner(self, values: Int[Tensor, " s"]) -> Int[Tensor, " size"]:
        """What is said of each sequence, at each of its positions; 0 for filling."""
        if not self.filled:
            return values[self.owners]
        return torch.nn.functional.pad(values, (0, 1))[self.owners]

    def in_rows(self, x: Float[Tensor, "size *d"]) -> Float[Tensor, "s longest *d"]:
        """Every sequence in a row of its own, filled up with zeros."""
        return self.row_groups.spread(x)[0]

    def in_groups(self, groups: list[list[int]]) -> RowGroups:
        """Sequences in rows as long as the longest of their group."""
        if len(groups) == 1:
            return self.row_groups
        lengths: list[int] = self.lengths.tolist()
        return self._row_groups(groups, [max(lengths[row] for row in group) for group in groups])

    def _row_groups(self, groups: list[list[int]], longest: list[int]) -> RowGroups:
        return RowGroups.of(self.owners, self.places, self.real if self.filled else None, groups, longest)

    @property
    def rows(self) -> int:
        """How many sequences there are."""
        return self.lengths.shape[0]


@dataclass(frozen=True, eq=False)
class Packs:
    """Which packed sequence asks which: the n-th of the queries the n-th of the keys."""

    queries: Packing
    keys: Packing

    def __post_init__(self) -> None:
        if self.queries.rows != self.keys.rows:
            raise RegardError(
                f"{self.queries.rows} packed sequences ask {self.keys.rows}: the n-th asks the n-th, so there are equally "
                "many"
            )

    @property
    def same(self) -> bool:
        """Whether sequences ask themselves."""
        return self.queries is self.keys

    def readied(self) -> "Packs":
        """This, with all that the kernel for variable lengths asks found out: torch.compile does not trace what is found once."""
        for each in (self, self.turned):
            _ = each.looking, each.seen, each.first, each.last
        if self.same:
            _ = self.until, self.since
        return self

    @property
    def idle(self) -> bool:
        """Whether there may be sequences that look at nothing, or that no query looks at."""
        return not self.same and min(self.queries.shortest, self.keys.shortest) == 0

    @cached_property
    def groups(self) -> list[list[int]]:
        """Sequences of like lengths together, where they are on a CPU, which gains from shorter rows."""
        asking, asked = self.queries.lengths, self.keys.lengths
        count = max(min(self.queries.rows // _LEAST, _MOST), 1)
        if count == 1 or asking.device.type != "cpu":
            return [list(range(self.queries.rows))]
        rising = (asking * asked).argsort(stable=True)
        return [some.tolist() for some in rising.tensor_split(count)]

    @cached_property
    def row_groups(self) -> tuple[RowGroups, RowGroups]:
        """The two sides with every sequence in a row of its own, as long as the longest of its group."""
        asking = self.queries.in_groups(self.groups)
        return asking, asking if self.same else self.keys.in_groups(self.groups)

    @cached_property
    def looking(self) -> Bool[Tensor, " q"] | None:
        """The queries that have a key to look at; None when all have."""
        return _both(self.queries, self.keys)

    @cached_property
    def seen(self) -> Bool[Tensor, " k"] | None:
        """The keys that a query may look at; None when all are."""
        return _both(self.keys, self.queries)

    @cached_property
    def first(self) -> Int[Tensor, " q"]:
        """The first key of each query's sequence."""
        return self.queries.at_owner(self.keys.starts).int()

    @cached_property
    def last(self) -> Int[Tensor, " q"]:
        """One beyond the last key of each query's sequence."""
        return (self.first + self.queries.at_owner(self.keys.lengths)).int()

    @cached_property
    def turned(self) -> "Packs":
        """The keys as those who ask."""
        return self if self.same else Packs(self.keys, self.queries)

    @cached_property
    def place(self) -> Int[Tensor, " q"]:
        """The position of each query in its row."""
        return torch.arange(self.queries.size, dtype=torch.int32, device=self.first.device)

    @cached_property
    def until(self) -> Int[Tensor, " q"]:
        """One beyond the last key of each query that does not look ahead; filling sees none."""
        return torch.minimum(self.last, self.place + 1)

    @cached_property
    def since(self) -> Int[Tensor, " k"]:
        """The first query of each key that is not looked at from before it."""
        return torch.maximum(self.turned.first, self.place)


def _both(own: Packing, other: Packing) -> Tensor | None:
    if own is other or other.shortest > 0:
        return own.real if own.filled else None
    return own.at_owner(other.lengths) > 0


class _Scatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, row_groups: RowGroups) -> Tensor:  # type: ignore[no-untyped-def]
        ctx.row_groups = row_groups
        return _scattered(x, row_groups)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None]:  # type: ignore[no-untyped-def]
        return _gathered(grad, ctx.row_groups), None


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, row_groups: RowGroups) -> Tensor:  # type: ignore[no-untyped-def]
        ctx.row_groups = row_groups
        return _gathered(x, row_groups)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None]:  # type: ignore[no-untyped-def]
        return _scattered(grad, ctx.row_groups), None


def _scattered(x: Tensor, row_groups: RowGroups) -> Tensor:
    filled = row_groups.real is not None
    spread = x.new_zeros(row_groups.count + filled, *x.shape[1:])
    return spread.index_copy_(0, row_groups.slots, x)[: row_groups.count]


def _gathered(x: Tensor, row_groups: RowGroups) -> Tensor:
    if row_groups.real is None:
        return x.index_select(0, row_groups.slots)
    found = x.index_select(0, row_groups.slots.clamp_max(max(row_groups.count - 1, 0)))
    return torch.where(row_groups.real.reshape(-1, *[1] * (x.ndim - 1)), found, 0.0)
