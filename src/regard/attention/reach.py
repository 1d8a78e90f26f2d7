"""The form of a mask that a kernel asks for: a band, two sets of rows, and only last a matrix."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeVar, overload

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.batch_axes import both, pad_axes, refuse_axes
from regard.attention.packing import Packs
from regard.attention.padding import Real

T = TypeVar("T")


class Extent(NamedTuple):
    """The sizes of the matrix that a mask or a bias describes."""

    queries: int
    keys: int
    device: torch.device

    @property
    def rows(self) -> Tensor:
        """The query positions, 0 … queries − 1."""
        return torch.arange(self.queries, device=self.device)

    @property
    def columns(self) -> Tensor:
        """The key positions, 0 … keys − 1."""
        return torch.arange(self.keys, device=self.device)


@dataclass(kw_only=True, eq=False)
class Reach:
    """Query i may look at key j when `low ≤ j − i ≤ high`, `queries[i]`, `keys[j]` and `rest[i, j]`, and both are in
    sequences that `packs` puts together.

    None means no limit. The batch axes of the tensors come first, as everywhere in masks. Where queries and keys are
    padded they are given as their number (`Real`), from which the flags `queries` and `keys` follow.

    Nothing changes one that is made. It is not frozen because one or more are made for every call, and a frozen
    dataclass takes several times as long to make.
    """

    extent: Extent
    low: int | None = None
    high: int | None = None
    asking: Bool[Tensor, "... q"] | Real | None = None
    asked: Bool[Tensor, "... k"] | Real | None = None
    rest: Bool[Tensor, "... q k"] | None = None
    paired: bool = False  # `queries` and `keys` are one set: the real positions of a padded sequence
    leading: bool = False  # and that set is the first positions: padded on the right
    packs: Packs | None = None  # what is packed: `queries` and `keys` are then those that look and those seen
    clean: bool = False  # positions that are not used hold nothing but numbers: there is nothing to tidy up
    bounded: tuple[int | None, int | None] = field(init=False)  # the band, without limits outside the matrix

    def __post_init__(self) -> None:
        low, high, extent = self.low, self.high, self.extent
        if low is not None and low <= 1 - extent.queries:
            low = None
        if high is not None and high >= extent.keys - 1:
            high = None
        self.bounded = low, high

    def __and__(self, other: "Reach") -> "Reach":
        if self.packs is None and other.packs is None and (self.plain or other.plain):
            low, high = narrower((self.low, self.high), (other.low, other.high))
            return (other if self.plain else self)._with_band(low, high)
        if (self.packs and not other.plain) or (other.packs and not self.plain):
            return self.spelt() & other.spelt()
        padded = [
            side for side in (self, other) if side.asking is not None or side.asked is not None or side.packs
        ]
        low, high = narrower((self.low, self.high), (other.low, other.high))
        queries = _both_real(self.asking, other.asking)
        one = self.asking is self.asked and other.asking is other.asked  # both paired, or one without any
        reach = Reach(
            extent=self.extent,
            low=low,
            high=high,
            asking=queries,
            asked=queries if one else _both_real(self.asked, other.asked),
            rest=both(self.rest, other.rest, tail=2),
            paired=len(padded) > 0 and all(side.paired for side in padded),
            leading=all(side.leading for side in padded),
            packs=self.packs or other.packs,
            clean=len(padded) > 0 and all(side.clean for side in padded) and self.rest is other.rest is None,
        )
        # j − i counts in the row; inside a sequence it means the same if both sides are packed alike, and otherwise nothing.
        across = reach.packs is not None and not reach.packs.same and (low, high) != (None, None)
        return reach.spelt() if across else reach

    def over(self, batch_axes: int) -> "Reach":
        """The same with its batch axes spread over those of a call."""
        if self.asking is self.asked is self.rest is None:
            return self
        asking = _over(self.asking, batch_axes, tail=1)
        return Reach(
            extent=self.extent,
            low=self.low,
            high=self.high,
            asking=asking,
            asked=asking if self.asked is self.asking else _over(self.asked, batch_axes, tail=1),
            rest=_over(self.rest, batch_axes, tail=2),
            paired=self.paired,
            leading=self.leading,
            packs=self.packs,
            clean=self.clean,
        )

    def _with_band(self, low: int | None, high: int | None) -> "Reach":
        """The same with another band, where nothing is packed."""
        return Reach(
            extent=self.extent,
            low=low,
            high=high,
            asking=self.asking,
            asked=self.asked,
            rest=self.rest,
            paired=self.paired,
            leading=self.leading,
            clean=self.clean and self.rest is None,
        )

    @property
    def queries(self) -> Bool[Tensor, "... q"] | None:
        """Which queries count; None: all."""
        return self.asking.flags() if isinstance(self.asking, Real) else self.asking

    @property
    def keys(self) -> Bool[Tensor, "... k"] | None:
        """Which keys count; None: all."""
        return self.asked.flags() if isinstance(self.asked, Real) else self.asked

    @property
    def plain(self) -> bool:
        """Whether it is a band and nothing else."""
        return self.asking is None and self.asked is None and self.rest is None and self.packs is None

    def spelt(self) -> "Reach":
        """The same with what is packed written out as a matrix."""
        if self.packs is None:
            return self
        asking, asked = self.packs.queries.owners, self.packs.keys.owners
        matrix = (asking[:, None] == asked) & (asked < self.packs.keys.rows)
        return replace(self, rest=both(self.rest, matrix, tail=2), packs=None)

    @property
    def everything(self) -> bool:
        """Whether every query that looks at all may look at every key."""
        return (
            self.bounded == (None, None) and self.asked is None and self.rest is None and self.packs is None
        )

    @property
    def form(self) -> Literal["nothing", "band", "matrix", "band and matrix"]:
        """What tells a kernel everything that takes a band and a matrix."""
        matrix = self.asked is not None or self.rest is not None
        if self.bounded == (None, None):
            return "matrix" if matrix else "nothing"
        return "band and matrix" if matrix else "band"

    @property
    def triangular(self) -> bool:
        """Whether the plain causal flag of a fused kernel says it all, up to rows that look at nothing."""
        square = self.extent.queries == self.extent.keys
        hidden = self.asked is None or (
            self.paired and self.leading
        )  # padded keys come after every real query
        return hidden and square and self.rest is None and self.packs is None and self.bounded == (None, 0)

    @property
    def mirrored(self) -> bool:
        """Whether the positions that look are those that are seen: padding, where the real ones see themselves."""
        low, high = self.bounded
        return self.paired and self.rest is None and (low or 0) <= 0 <= (high or 0)

    def matrix(self) -> Bool[Tensor, "*batch _q _k"] | None:
        """Who may look at whom, as small as it broadcasts, or None for everything.

        `queries` is left out and a row without any key is opened: a kernel then never meets an empty
        softmax, and the output of those rows is set to zero with `looking`.
        """
        allowed = self.spelt()._band_and_keys()
        if allowed is None or (self.plain and self.looking() is None):
            return allowed
        return allowed == allowed.any(-1, keepdim=True)  # all of a row without any True

    def besides_band(self) -> Bool[Tensor, "*batch _q _k"] | None:
        """Who may look at whom as far as `keys` and `rest` say, as small as it broadcasts, or None for everything."""
        keys = self.keys
        return both(self.rest, None if keys is None else keys[..., None, :], tail=2)

    def added(self) -> Float[Tensor, "*batch _q _k"] | None:
        """The matrix as what is added to scores: 0, and −inf for pairs that are masked."""
        allowed = self.matrix()
        if allowed is None:
            return None
        return torch.zeros((), dtype=torch.float32, device=allowed.device).where(allowed, -torch.inf)

    def settled(self) -> "Reach":
        """The same, with what a kernel asks of it worked out once: for calls that share it, step after step.

        Whether all queries look at something is found out too, which waits for a GPU.
        """
        return _Settled(**self._parts())

    def kept(self) -> "Reach":
        """The same, keeping what it computes for a kernel: each part once, on first use."""
        return _Kept(**self._parts())

    def once(self, name: Hashable, work: Callable[[], T]) -> T:
        """What a kernel works out of it, under a name that says what it depends on besides."""
        return work()

    def _parts(self) -> dict[str, Any]:
        return {part.name: getattr(self, part.name) for part in fields(self) if part.init}

    def looking(self) -> Bool[Tensor, "*batch q"] | None:
        """The queries that may look at something; None when all may."""
        if self.rest is not None:
            return both(_any(self._band_and_keys(), -1), self.queries, tail=1)
        if self.mirrored:
            return self.queries
        return _reached(
            self.extent.queries, self.extent.keys, *self.bounded, self.queries, self.keys, self.extent.device
        )

    def seen(self) -> Bool[Tensor, "*batch k"] | None:
        """The keys that some query may look at; None when all are."""
        if self.rest is not None:
            queries = self.queries
            rows = None if queries is None else queries[..., :, None]
            return _any(both(self._band_and_keys(), rows, tail=2), -2)
        if self.mirrored:
            return self.keys
        low, high = self.bounded
        low, high = (None if high is None else -high), (None if low is None else -low)
        return _reached(
            self.extent.keys, self.extent.queries, low, high, self.keys, self.queries, self.extent.device
        )

    def _band_and_keys(self) -> Tensor | None:
        low, high = self.bounded
        allowed = self.besides_band()
        if low is None and high is None:
            return allowed
        band = torch.ones(self.extent.queries, self.extent.keys, dtype=torch.bool, device=self.extent.device)
        band = band if high is None else band.tril(high)
        band = band if low is None else band.triu(low)
        return both(band, allowed, tail=2)


@dataclass(kw_only=True, eq=False)
class _Kept(Reach):
    """A reach that remembers its answers."""

    def once(self, name: Hashable, work: Callable[[], T]) -> T:
        if name not in self._found:
            self._found[name] = work()
        found: T = self._found[name]
        return found

    @cached_property
    def _found(self) -> dict[Hashable, Any]:
        return {}

    def matrix(self) -> Tensor | None:
        return self._matrix

    def added(self) -> Tensor | None:
        return self._added

    def looking(self) -> Tensor | None:
        return self._looking

    def seen(self) -> Tensor | None:
        return self._seen

    @cached_property
    def _matrix(self) -> Tensor | None:
        return super().matrix()

    @cached_property
    def _added(self) -> Tensor | None:
        return super().added()

    @cached_property
    def _looking(self) -> Tensor | None:
        return super().looking()

    @cached_property
    def _seen(self) -> Tensor | None:
        return super().seen()


@dataclass(kw_only=True, eq=False)
class _Settled(_Kept):
    """One that knows whether all queries look at something."""

    @cached_property
    def _looking(self) -> Tensor | None:
        looking = Reach.looking(self)
        return None if looking is None or bool(looking.all()) else looking


def within(ahead: Tensor, low: int | None, high: int | None) -> Tensor:
    """`low ≤ ahead ≤ high`, where None is no limit."""
    inside = torch.ones_like(ahead, dtype=torch.bool) if low is None else ahead >= low
    return inside if high is None else inside & (ahead <= high)


Band = tuple[int | None, int | None]


def narrower(a: Band, b: Band) -> Band:
    """The band inside both."""
    (low, high), (other_low, other_high) = a, b
    if low is None or (other_low is not None and other_low > low):
        low = other_low
    if high is None or (other_high is not None and other_high < high):
        high = other_high
    return low, high


def _both_real(a: Tensor | Real | None, b: Tensor | Real | None) -> Tensor | Real | None:
    """`both`, which leaves one alone as it is."""
    if a is None or b is None:
        return a if b is None else b
    a, b = (part.flags() if isinstance(part, Real) else part for part in (a, b))
    return both(a, b, tail=1)


@overload
def _over(part: Tensor | None, batch_axes: int, tail: Literal[2]) -> Tensor | None: ...
@overload
def _over(part: Tensor | Real | None, batch_axes: int, tail: Literal[1]) -> Tensor | Real | None: ...
def _over(part: Tensor | Real | None, batch_axes: int, tail: int) -> Tensor | Real | None:
    if part is None:
        return None
    if isinstance(part, Real):
        return part.over(batch_axes)
    if part.ndim - tail > batch_axes:
        refuse_axes(part.shape, part.ndim - tail, batch_axes)
    return pad_axes(part, batch_axes, tail)


def _any(allowed: Tensor | None, axis: int) -> Tensor | None:
    return None if allowed is None else allowed.any(axis)


def _reached(
    count: int,
    others: int,
    low: int | None,
    high: int | None,
    own: Tensor | None,
    other: Tensor | None,
    device: torch.device,
) -> Tensor | None:
    """Which positions p count (`own`) and have some counting `other` in p + low … p + high; None for all.

    A window sum: the running total of `other` at the end of the window less that at its start.
    """
    if other is None and others > 0 and (high or 0) >= 0 and (low is None or count + low <= others):
        return own
    if other is not None and low is None and high is None:
        return both(other.any(-1, keepdim=True).expand(*other.shape[:-1], count), own, tail=1)
    positions = torch.arange(count, device=device)
    first = torch.zeros_like(positions) if low is None else (positions + low).clamp(0, others)
    last = torch.full_like(positions, others) if high is None else (positions + high + 1).clamp(0, others)
    if other is None:
        return both(last > first, own, tail=1)
    total = torch.nn.functional.pad(other.cumsum(-1), (1, 0))
    return both(total[..., last] > total[..., first], own, tail=1)
