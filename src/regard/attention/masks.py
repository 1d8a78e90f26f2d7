"""Masks: who may look at whom, described rather than written out. True = may look.

A mask knows nothing of a model and holds no matrix unless it was given one:

    causal() & lengths(n)          # a padded batch of texts, each word looking back
    causal() | prefix(4)           # the first four words are seen by all
    documents(ids) & window(256)   # packed texts, each word seeing its neighbourhood

Batch axes come first and are lined up at the left: lengths of shape [b] serve a call of shape [b, q, d] and
one of shape [b, h, q, d] alike. `mask.dense(q, k)` is the matrix, `mask.picture(q, k)` a drawing of it.
"""

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.attention.batch_axes import align
from regard.attention.padding import Real
from regard.attention.reach import Extent, Reach, narrower, within
from regard.data.given import integers, shown, whole
from regard.errors import RegardError

Count = int | Int[Tensor, "*batch"]


class Mask(ABC):
    """Who may look at whom. Compose with `&` (both allow), `|` (either allows) and `~` (the opposite)."""

    _kept: ClassVar[dict[tuple[Extent, int], Reach] | None] = None  # of one that is `shared`

    @abstractmethod
    def block(
        self, rows: Int[Tensor, " r"], columns: Int[Tensor, " c"], extent: Extent
    ) -> Bool[Tensor, "*batch _r _c"]:
        """The rectangle of these query and key positions, out of a whole of the given extent.

        Axes along which nothing changes may have size 1.
        """

    def reach(self, extent: Extent) -> Reach:
        """The cheapest form that says the same."""
        return Reach(extent=extent, rest=self.block(extent.rows, extent.columns, extent))

    def reach_over(self, extent: Extent, batch_axes: int) -> Reach:
        """Its reach, with its batch axes spread over those of a call."""
        if self._kept is None:
            return self.reach(extent).over(batch_axes)
        if (extent, batch_axes) not in self._kept:
            self._kept[extent, batch_axes] = self.reach(extent).over(batch_axes).kept()
        return self._kept[extent, batch_axes]

    def shared(self) -> "Mask":
        """The same mask, for the layers of one forward pass: what the first works out is kept for the others.

        So its tensors may not change any more. A traced graph works out everything once anyway.
        """
        if torch.compiler.is_compiling():
            return self
        mask = copy(self)
        object.__setattr__(mask, "_kept", {})
        return mask

    def __getstate__(self) -> dict[str, Any]:
        return {name: part for name, part in vars(self).items() if name != "_kept"}

    def band(self, extent: Extent) -> tuple[int | None, int | None]:
        """Limits of j − i that hold for every pair it allows, as far as they are known without a matrix."""
        return None, None

    def dense(
        self, queries: int, keys: int, *, device: torch.device | str | None = None
    ) -> Bool[Tensor, "*batch {queries} {keys}"]:
        """The whole matrix, for those who want it."""
        extent = Extent(queries=queries, keys=keys, device=torch.device(device or self._device()))
        allowed = self.block(extent.rows, extent.columns, extent)
        return allowed.expand(*allowed.shape[:-2], queries, keys)

    def picture(self, queries: int, keys: int) -> str:
        """The matrix as text, one line a query: ■ may look, · may not. The first of a batch is drawn."""
        matrix = self.dense(queries, keys)
        while matrix.ndim > 2:
            matrix = matrix[0]
        return "\n".join("".join("■ " if cell else "· " for cell in row).rstrip() for row in matrix.tolist())

    def __and__(self, other: "Mask") -> "Mask":
        return _And(self, checked_mask(other))

    def __or__(self, other: "Mask") -> "Mask":
        return _Or(self, checked_mask(other))

    def __invert__(self) -> "Mask":
        return _Not(self)

    def __bool__(self) -> bool:
        raise RegardError(f"{self!r} has no truth value: combine masks with & | ~, not with and, or, not")

    def _device(self) -> torch.device:
        held = (part for part in vars(self).values() if isinstance(part, Mask | Tensor))
        devices = [part.device if isinstance(part, Tensor) else part._device() for part in held]
        return next((device for device in devices if device.type != "cpu"), torch.get_default_device())


def causal(*, offset: int | None = None) -> Mask:
    """Look at yourself and back: query i at key j when j ≤ i + offset.

    `offset` is where the first query stands among the keys. Leave it out when queries and keys are the same
    positions; a decoder that has seen n tokens and asks about the next ones says `causal(offset=n)`.
    """
    return _Causal(None if offset is None else whole("offset", offset))


def window(size: int, *, offset: int | None = None) -> Mask:
    """Look at your neighbourhood: query i at key j when |i + offset − j| < size.

    So `causal() & window(256)` sees 256 keys, itself included. `offset` as in `causal`.
    """
    if whole("size", size) < 1:
        raise RegardError(f"window(size={size}): the size must be at least 1, which sees only itself")
    return _Window(size, None if offset is None else whole("offset", offset))


def lengths(
    both: Count | None = None,
    *,
    keys: Count | None = None,
    queries: Count | None = None,
    padded: str = "right",
) -> Mask:
    """The first n positions are real, the rest is padding (or the last n, when padded on the left).

    `lengths(n)` is for self-attention, where queries and keys are the same padded positions;
    `lengths(keys=n)`, `lengths(queries=m)` or both are for cross-attention. A padded query gets zeros.
    """
    if not isinstance(padded, str) or padded not in ("left", "right"):
        raise RegardError(f"padded={shown(padded)}: padding is on the 'left' or on the 'right'")
    if both is not None and (keys is not None or queries is not None):
        raise RegardError(
            "lengths(n) already speaks of queries and keys: give either n, or keys= and queries="
        )
    if both is None and keys is None and queries is None:
        raise RegardError("lengths() says nothing: give n, or keys= and queries=")
    both, keys, queries = _count("n", both), _count("keys", keys), _count("queries", queries)
    paired = both is not None
    return _Lengths(both if paired else keys, both if paired else queries, padded, paired)


def prefix(count: Count) -> Mask:
    """The first `count` keys are seen by all. A prefix language model looks with `causal() | prefix(n)`."""
    if count is None:
        raise RegardError("prefix(None): say how many keys are seen by all")
    return _Lengths(_count("count", count), None, "right", paired=False, word="prefix")


def documents(ids: Int[Tensor, "*batch k"], *, queries: Int[Tensor, "*batch q"] | None = None) -> Mask:
    """Packed sequences see only themselves: query i at key j when both carry the same id.

    A negative id is padding: it sees nothing and nothing sees it. Cross-attention between two packed
    sequences gives the ids of the queries too.
    """
    asking = ids if queries is None else queries
    return _Documents(_numbered("ids", ids), _numbered("queries", asking))


def keep(tensor: Bool[Tensor, "*batch q k"]) -> Mask:
    """Exactly the pairs that are True in a tensor [..., q, k]; its batch axes come first."""
    if isinstance(tensor, np.ndarray) and tensor.dtype == bool:
        tensor = torch.from_numpy(tensor)
    if not isinstance(tensor, Tensor) or tensor.dtype != torch.bool or tensor.ndim < 2:
        raise RegardError(f"keep({shown(tensor)}): give a bool tensor [..., queries, keys], True = may look")
    return _Keep(tensor)


@dataclass(frozen=True, eq=False, repr=False)
class _Causal(Mask):
    offset: int | None

    def block(self, rows: Tensor, columns: Tensor, extent: Extent) -> Tensor:
        return columns <= rows[:, None] + _offset(self, self.offset, extent)

    def band(self, extent: Extent) -> tuple[int | None, int | None]:
        return None, _offset(self, self.offset, extent)

    def reach(self, extent: Extent) -> Reach:
        low, high = self.band(extent)
        return Reach(extent=extent, low=low, high=high)

    def __repr__(self) -> str:
        return "causal()" if self.offset is None else f"causal(offset={self.offset})"


@dataclass(frozen=True, eq=False, repr=False)
class _Window(Mask):
    size: int
    offset: int | None

    def block(self, rows: Tensor, columns: Tensor, extent: Extent) -> Tensor:
        ahead = columns - rows[:, None] - _offset(self, self.offset, extent)
        return within(ahead, 1 - self.size, self.size - 1)

    def band(self, extent: Extent) -> tuple[int | None, int | None]:
        middle = _offset(self, self.offset, extent)
        return middle - self.size + 1, middle + self.size - 1

    def reach(self, extent: Extent) -> Reach:
        low, high = self.band(extent)
        return Reach(extent=extent, low=low, high=high)

    def __repr__(self) -> str:
        return f"window({self.size}{'' if self.offset is None else f', offset={self.offset}'})"


@dataclass(frozen=True, eq=False, repr=False)
class _Lengths(Mask):
    keys: Count | None
    queries: Count | None
    padded: str
    paired: bool
    word: str = "lengths"

    def block(self, rows: Tensor, columns: Tensor, extent: Extent) -> Tensor:
        self._check(extent)
        queries = self._at(rows, self.queries, extent.queries)
        keys = self._at(columns, self.keys, extent.keys)
        queries, keys = align(queries, keys, tail=1)
        return queries[..., :, None] & keys[..., None, :]

    def reach(self, extent: Extent) -> Reach:
        self._check(extent)
        queries = None if self.queries is None else self._real(self.queries, extent.queries, extent.device)
        keys = queries
        if not self.paired:
            keys = None if self.keys is None else self._real(self.keys, extent.keys, extent.device)
        leading = self.padded == "right"
        return Reach(extent=extent, asking=queries, asked=keys, paired=self.paired, leading=leading)

    def _real(self, count: Count, size: int, device: torch.device) -> Real:
        return Real(count, size, self.padded, device)

    def _at(self, positions: Tensor, count: Count | None, size: int) -> Tensor:
        if count is None:
            return torch.ones_like(positions, dtype=torch.bool)
        return self._real(count, size, positions.device).at(positions)

    def _check(self, extent: Extent) -> None:
        if self.paired and extent.queries != extent.keys:
            raise RegardError(
                f"{self!r} is for self-attention, but there are {extent.queries} queries and {extent.keys} keys: "
                "say lengths(keys=…, queries=…)"
            )

    def __repr__(self) -> str:
        if self.word == "prefix":
            return f"prefix({shown(self.keys)})"
        named = {"keys": self.keys, "queries": self.queries}
        parts = [f"{name}={shown(count)}" for name, count in named.items() if count is not None]
        parts = [shown(self.keys)] if self.paired else parts
        if self.padded != "right":
            parts.append(f"padded={self.padded!r}")
        return f"lengths({', '.join(parts)})"


@dataclass(frozen=True, eq=False, repr=False)
class _Documents(Mask):
    keys: Tensor
    queries: Tensor

    def block(self, rows: Tensor, columns: Tensor, extent: Extent) -> Tensor:
        check_size(self, self.queries.shape[-1], self.keys.shape[-1], extent)
        asked = self.keys.to(columns.device)[..., columns]
        asking = self.queries.to(rows.device)[..., rows]
        key, query = align(asked, asking, tail=1)
        return (query[..., :, None] == key[..., None, :]) & (key >= 0)[..., None, :]

    def __repr__(self) -> str:
        return f"documents({shown(self.keys)})"


@dataclass(frozen=True, eq=False, repr=False)
class _Keep(Mask):
    tensor: Tensor

    def block(self, rows: Tensor, columns: Tensor, extent: Extent) -> Tensor:
        check_size(self, self.tensor.shape[-2], self.tensor.shape[-1], extent)
        kept = self.tensor.to(rows.device).expand(*self.tensor.shape[:-2], extent.queries, extent.keys)
        return kept.index_select(-2, rows).index_select(-1, columns)

    def __repr__(self) -> str:
        return f"keep({shown(self.tensor)})"


@dataclass(frozen=True, eq=False, repr=False)
class _And(Mask):
    a: Mask
    b: Mask

    def block(self, rows: Tensor, columns: Tensor, extent: Extent) -> Tensor:
        a, b = align(self.a.block(rows, columns, extent), self.b.block(rows, columns, extent), tail=2)
        return a & b

    def band(self, extent: Extent) -> tuple[int | None, int | None]:
        return narrower(self.a.band(extent), self.b.band(extent))

    def reach(self, extent: Extent) -> Reach:
        reach = self.a.reach(extent) & self.b.reach(extent)
        if reach.low is not None and reach.high is not None and reach.low > reach.high:
            raise RegardError(
                f"{self!r} contradicts itself: {self.a!r} and {self.b!r} leave no key to any query"
            )
        return reach

    def __repr__(self) -> str:
        return f"{_grouped(self.a)} & {_grouped(self.b)}"


@dataclass(frozen=True, eq=False, repr=False)
class _Or(Mask):
    a: Mask
    b: Mask

    def block(self, rows: Tensor, columns: Tensor, extent: Extent) -> Tensor:
        a, b = align(self.a.block(rows, columns, extent), self.b.block(rows, columns, extent), tail=2)
        return a | b

    def __repr__(self) -> str:
        return f"{self.a!r} | {self.b!r}"


@dataclass(frozen=True, eq=False, repr=False)
class _Not(Mask):
    mask: Mask

    def block(self, rows: Tensor, columns: Tensor, extent: Extent) -> Tensor:
        return ~self.mask.block(rows, columns, extent)

    def __repr__(self) -> str:
        return f"~{self.mask!r}" if not isinstance(self.mask, _And | _Or) else f"~({self.mask!r})"


def _grouped(mask: Mask) -> str:
    return f"({mask!r})" if isinstance(mask, _Or) else repr(mask)


def _offset(mask: Mask, offset: int | None, extent: Extent) -> int:
    if offset is None and extent.queries != extent.keys:
        raise RegardError(
            f"{mask!r} with {extent.queries} queries and {extent.keys} keys: say where the first query stands "
            f"among the keys, offset={max(extent.keys - extent.queries, 0)} for the last {extent.queries}"
        )
    return offset or 0


def check_size(mask: Mask, queries: int, keys: int, extent: Extent) -> None:
    """Refuse a mask that speaks of other positions than there are."""
    if queries not in (1, extent.queries) or keys not in (1, extent.keys):
        raise RegardError(
            f"{mask!r} speaks of {queries} queries and {keys} keys, the call has {extent.queries} and {extent.keys}"
        )


def _count(name: str, count: Count | None) -> Count | None:
    """How many positions: one whole number, or a tensor of them."""
    if isinstance(count, np.ndarray):
        count = integers(name, count)
    if isinstance(count, Tensor) and (
        count.dtype.is_floating_point or count.dtype.is_complex or count.dtype == torch.bool
    ):
        raise RegardError(f"{name}={shown(count)}: lengths are whole numbers; give an integer tensor")
    if count is not None and not isinstance(count, Tensor) and whole(name, count) < 0:
        raise RegardError(f"{name}={count}: a length is at least 0")
    return count


def _numbered(name: str, ids: Tensor) -> Tensor:
    """An id for each position."""
    ids = integers(name, ids)
    if ids.ndim == 0:
        raise RegardError(f"documents({name}={shown(ids)}): give one id a position")
    return ids


def checked_mask(given: object) -> Mask:
    """A mask, or an error that says how to make one."""
    if isinstance(given, Mask):
        return given
    if isinstance(given, Tensor | np.ndarray):
        raise RegardError(
            f"mask={shown(given)}: a bare tensor does not say whether True is seen or hidden: wrap it in keep(…)"
        )
    raise RegardError(f"mask={shown(given)}: give a mask, such as causal(), lengths(n) or keep(tensor)")
