"""KV cache of a decoder: keys and values in a storage that grows, of one text a row or of several that share a cache.

A beam search continues any text of a source without copying keys: a key stays in the slot where it was written, and a row
looks at the slots that it and the rows it came from have written.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.masks import Mask, lengths
from regard.attention.reach import Extent, Reach


@dataclass(frozen=True)
class KeyValue:
    """Projected keys and values, [batch, kv_heads, positions, width]: what a decoder keeps instead of its past."""

    key: Float[Tensor, "*b g k dk"]
    value: Float[Tensor, "*b g k dv"]
    storage: "GrowingStorage | None" = None  # the storage they are in, with space behind them

    @property
    def length(self) -> int:
        """How many positions are kept."""
        return self.key.shape[-2]

    def extended(self, newer: "KeyValue") -> "KeyValue":
        """These positions, then the newer ones. Nothing that was kept before is overwritten."""
        if any(part.requires_grad for part in (self.key, newer.key, self.value, newer.value)):
            return KeyValue(torch.cat([self.key, newer.key], -2), torch.cat([self.value, newer.value], -2))
        total, storage = self.length + newer.length, self.storage
        if storage is None or storage.filled != self.length or storage.size < total:
            # Full, or another text was continued from here already.
            storage = GrowingStorage.like(self, size=_rounded(total))
            storage.put(self)
        storage.put(newer)
        return storage.kept()

    def compact(self) -> "KeyValue":
        """The same, with the positions of a head side by side, as products want them: for a memory that is read at every step."""
        return KeyValue(self.key.contiguous(), self.value.contiguous())

    def pick(self, rows: Int[Tensor, " r"]) -> "KeyValue":
        """These rows of the batch, in this order (beam search)."""
        if self.storage is None:
            return KeyValue(self.key[rows], self.value[rows])
        storage = GrowingStorage.like(self, size=_rounded(self.length + 1), batch=rows.shape)
        storage.put(self, rows)
        return storage.kept()


class GrowingStorage:
    """Storage for keys and values that is longer than what it holds.

    What is written comes behind everything that was handed out, so a view of it does not change. The writing goes
    past the version counters for that reason: a watch compares them to find calls whose tensors were overwritten.
    """

    def __init__(self, key: Tensor, value: Tensor) -> None:
        self._key, self._value = key, value
        self.filled = 0

    @classmethod
    def like(cls, kept: KeyValue, *, size: int, batch: torch.Size | None = None) -> "GrowingStorage":
        """An empty storage for what is shaped like this."""

        def empty(part: Tensor) -> Tensor:
            shape = part.shape if batch is None else (*batch, *part.shape[1:])
            return part.new_empty(*shape[:-2], size, shape[-1])

        return cls(empty(kept.key), empty(kept.value))

    @property
    def size(self) -> int:
        """How many positions there is space for."""
        return self._key.shape[-2]

    def put(self, newer: KeyValue, rows: Int[Tensor, " r"] | None = None) -> None:
        """Add positions at the end; some rows of them, if not all."""
        for storage, part in ((self._key, newer.key), (self._value, newer.value)):
            place = storage.data.narrow(-2, self.filled, newer.length)
            if rows is None:
                place.copy_(part)
            else:
                torch.index_select(part.data, 0, rows, out=place)
        self.filled += newer.length

    def kept(self) -> KeyValue:
        """All that is in the storage."""
        return KeyValue(self._key.narrow(-2, 0, self.filled), self._value.narrow(-2, 0, self.filled), self)


def _rounded(positions: int) -> int:
    """Space for at least so many, doubled from 16 until it is enough."""
    size = 16
    while size < positions:
        size *= 2
    return size


class Slots(ABC):
    """The slots of a shared cache that belong to each of `group` rows of every source."""

    group: int
    in_place = False  # whether a kernel may write the newest keys into the cache on its way

    @property
    @abstractmethod
    def offset(self) -> int | Int[Tensor, " 1"]:
        """The position of the next tokens in their texts."""

    @abstractmethod
    def grown(self) -> "Slots":
        """After one more position of every row. The same object for all layers of a step."""

    @abstractmethod
    def put(self, kept: KeyValue, newer: KeyValue) -> KeyValue:
        """A cache with the newest positions in it, [sources, heads, group, d]."""

    @property
    @abstractmethod
    def reach(self) -> Reach:
        """What each row may look at."""

    @abstractmethod
    def of_rows(self) -> Int[Tensor, "s n t"]:
        """The slots of each row, in the order of positions. Waits for the device."""

    def beside(self, x: Float[Tensor, "rows h 1 d"]) -> Float[Tensor, "s h group d"]:
        """Rows of one source as several positions of one."""
        return x[:, :, 0].reshape(-1, self.group, x.shape[1], x.shape[3]).transpose(1, 2)

    def apart(self, x: Float[Tensor, "s h group d"]) -> Float[Tensor, "rows h 1 d"]:
        """And back."""
        return x.transpose(1, 2).flatten(0, 1)[:, :, None]


class GrowingSlots(Slots):
    """Slots of a cache that grows with its texts."""

    def __init__(self, slots: Int[Tensor, "s n t"], size: int) -> None:
        self.slots, self.size = slots, size  # the slots of each text, and how many are taken
        self.group = slots.shape[1]

    @classmethod
    def of(cls, sources: int, group: int, length: int, *, device: torch.device) -> "GrowingSlots":
        """Texts that were one until now."""
        return cls(torch.arange(length, device=device).expand(sources, group, length), length)

    @property
    def offset(self) -> int:
        """As many as were written."""
        return self.slots.shape[-1]

    def grown(self) -> "GrowingSlots":
        """A slot more for each row."""
        return self._grown

    @cached_property
    def _grown(self) -> "GrowingSlots":
        own = torch.arange(self.size, self.size + self.group, device=self.slots.device)
        slots = torch.cat([self.slots, own[:, None].expand(len(self.slots), -1, 1)], dim=-1)
        return GrowingSlots(slots, self.size + self.group)

    def put(self, kept: KeyValue, newer: KeyValue) -> KeyValue:
        """Behind those before."""
        return kept.extended(newer)

    @cached_property
    def reach(self) -> Reach:
        """The slots of each text."""
        sources, group, _ = self.slots.shape
        own = torch.zeros(sources, 1, group, self.size, dtype=torch.bool, device=self.slots.device)
        own.scatter_(-1, self.slots[:, None], True)
        extent = Extent(queries=group, keys=self.size, device=own.device)
        return Reach(extent=extent, rest=own).settled()

    def of_rows(self) -> Int[Tensor, "s n t"]:
        """As they are."""
        return self.slots

    def pick(self, rows: Int[Tensor, " r"], sources: Int[Tensor, " s"]) -> "GrowingSlots":
        """The slots of some rows, equally many of each of some sources, in their order."""
        places = (rows % self.group).reshape(len(sources), -1)
        return GrowingSlots(self.slots[sources[:, None], places], self.size)


@dataclass(frozen=True)
class BeamCache:
    """The keys and values of the texts of each source, in one cache."""

    kept: KeyValue  # [sources, heads, slots, d]
    slots: Slots
    newest: KeyValue | None = None  # of this step, [sources, heads, group, d], not in the cache yet

    @property
    def length(self) -> int | Int[Tensor, " 1"]:
        """How many positions each text has."""
        return self.slots.offset

    def extended(self, newer: KeyValue) -> "BeamCache":
        """With one more position of every row."""
        slots = self.slots.grown()
        beside = KeyValue(slots.beside(newer.key), slots.beside(newer.value))
        if slots.in_place:
            return BeamCache(self.kept, slots, beside)
        return BeamCache(slots.put(self.kept, beside), slots)

    def settled(self) -> "BeamCache":
        """With the newest positions in the cache."""
        if self.newest is None:
            return self
        return BeamCache(self.slots.put(self.kept, self.newest), self.slots)

    def pick(self, rows: Int[Tensor, " r"]) -> KeyValue:
        """The keys and values of these rows, each by itself."""
        return self.apart().pick(rows)

    def apart(self) -> KeyValue:
        """The keys and values of every row by itself, copied."""
        slots, settled = self.slots.of_rows(), self.settled().kept
        return KeyValue(_gathered(settled.key, slots), _gathered(settled.value, slots))


def _gathered(kept: Float[Tensor, "s h k d"], slots: Int[Tensor, "s n t"]) -> Float[Tensor, "rows h t d"]:
    index = slots[:, None, :, :, None].expand(-1, kept.shape[1], -1, -1, kept.shape[-1])
    wide = kept[:, :, None].expand(-1, -1, slots.shape[1], -1, -1)
    return wide.gather(3, index).transpose(1, 2).flatten(0, 1)


@dataclass(frozen=True, eq=False)
class Memory:
    """Keys and values of the sources, for each module that asks them. Row r asks source r // group."""

    layers: tuple[KeyValue, ...]
    lengths: Int[Tensor, " sources"]
    group: int = 1

    @property
    def rows(self) -> int:
        """How many texts are being written."""
        return self.lengths.shape[0] * self.group

    @cached_property
    def mask(self) -> Mask:
        """The real positions of the sources."""
        return lengths(keys=self.lengths)

    @cached_property
    def reach(self) -> Reach:
        """What one step of every row reaches under that mask: the same at every step and in every layer."""
        key = self.layers[0].key
        extent = Extent(queries=self.group, keys=key.shape[-2], device=key.device)
        return self.mask.reach(extent).over(key.ndim - 2).settled()

    def pick(self, rows: Int[Tensor, " r"]) -> "Memory":
        """The memory of these rows. Nothing is copied while all sources keep equally many rows each."""
        return self.of(self.asked(rows))

    def asked(self, rows: Int[Tensor, " r"]) -> "Asked":
        """Which sources these rows ask, and how many rows each."""
        owners = torch.div(rows, self.group, rounding_mode="floor")
        sources, count = self.lengths.shape[0], rows.shape[0]
        if sources and count and count % sources == 0:
            every = torch.arange(sources, device=rows.device)
            if torch.equal(owners, every.repeat_interleave(count // sources)):
                return Asked(every, count // sources, everyone=True)
        kept, counts = torch.unique_consecutive(owners, return_counts=True)
        group = int(counts[0]) if count else 1
        if not bool((counts == group).all()):  # no equal groups: a memory each
            return Asked(owners, 1)
        return Asked(kept, group)

    def of(self, asked: "Asked") -> "Memory":
        """The memory of these sources."""
        if asked.everyone:
            return replace(self, group=asked.group)
        kept = asked.sources
        return Memory(tuple(layer.pick(kept) for layer in self.layers), self.lengths[kept], asked.group)


@dataclass(frozen=True, eq=False)
class Asked:
    """Sources, each asked by `group` neighbouring rows."""

    sources: Int[Tensor, " s"]
    group: int
    everyone: bool = False  # the sources are all there were, in their order
