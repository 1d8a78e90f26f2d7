"""Texts of one source written side by side: they share one room for their pasts, and each knows which of it is its own.

A beam search that goes on from some of its rows would have to copy their pasts. Here nothing is copied: a key stays in
the slot where it was written, and a row looks at the slots that it and those it came from have written.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.keyvalue import KeyValue
from regard.attention.reach import Extent, Reach


class Lineage(ABC):
    """Who came from whom, among `group` rows of each source."""

    group: int
    stays = False  # whether the room is written in place, which a kernel may do by the way

    @property
    @abstractmethod
    def offset(self) -> int | Int[Tensor, " 1"]:
        """The position of the next tokens in their texts."""

    @abstractmethod
    def grown(self) -> "Lineage":
        """After one more position of every row. The same for all layers that ask."""

    @abstractmethod
    def put(self, kept: KeyValue, newer: KeyValue) -> KeyValue:
        """A room with the newest positions in it, [sources, heads, group, d]."""

    @property
    @abstractmethod
    def reach(self) -> Reach:
        """What each row may look at."""

    def beside(self, x: Float[Tensor, "rows h 1 d"]) -> Float[Tensor, "s h group d"]:
        """Rows of one source as several positions of one."""
        return x[:, :, 0].reshape(-1, self.group, x.shape[1], x.shape[3]).transpose(1, 2)

    def apart(self, x: Float[Tensor, "s h group d"]) -> Float[Tensor, "rows h 1 d"]:
        """And back."""
        return x.transpose(1, 2).flatten(0, 1)[:, :, None]


class Branches(Lineage):
    """A lineage that grows with its texts."""

    def __init__(self, slots: Int[Tensor, "s n t"], size: int) -> None:
        self.slots, self.size = slots, size  # the slots of each text, and how many are taken
        self.group = slots.shape[1]

    @classmethod
    def of(cls, sources: int, group: int, length: int, *, device: torch.device) -> "Branches":
        """Texts that were one until now."""
        return cls(torch.arange(length, device=device).expand(sources, group, length), length)

    @property
    def offset(self) -> int:
        """As many as were written."""
        return self.slots.shape[-1]

    def grown(self) -> "Branches":
        """A slot more for each row."""
        return self._grown

    @cached_property
    def _grown(self) -> "Branches":
        own = torch.arange(self.size, self.size + self.group, device=self.slots.device)
        slots = torch.cat([self.slots, own[:, None].expand(len(self.slots), -1, 1)], dim=-1)
        return Branches(slots, self.size + self.group)

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

    def pick(self, rows: Int[Tensor, " r"], sources: Int[Tensor, " s"]) -> "Branches":
        """The lineage of some rows, as many for each of some sources, in their order."""
        places = (rows % self.group).reshape(len(sources), -1)
        return Branches(self.slots[sources[:, None], places], self.size)

    def pasts(self, kept: Float[Tensor, "s h slots d"]) -> Float[Tensor, "rows h t d"]:
        """The past of every row by itself."""
        rows = self.slots[:, None, :, :, None].expand(-1, kept.shape[1], -1, -1, kept.shape[-1])
        wide = kept[:, :, None].expand(-1, -1, self.group, -1, -1)
        return wide.gather(3, rows).transpose(1, 2).flatten(0, 1)


@dataclass(frozen=True)
class SharedPast:
    """The pasts of the texts of each source, in one room."""

    kept: KeyValue  # [sources, heads, slots, d]
    lineage: Lineage
    newest: KeyValue | None = None  # of this step, [sources, heads, group, d], not in the room yet

    @property
    def length(self) -> int | Int[Tensor, " 1"]:
        """How many positions each text has."""
        return self.lineage.offset

    def extended(self, newer: KeyValue) -> "SharedPast":
        """With one more position of every row."""
        lineage = self.lineage.grown()
        beside = KeyValue(lineage.beside(newer.key), lineage.beside(newer.value))
        if lineage.stays:
            return SharedPast(self.kept, lineage, beside)
        return SharedPast(lineage.put(self.kept, beside), lineage)

    def pick(self, rows: Int[Tensor, " r"]) -> KeyValue:
        """The pasts of these rows, each by itself."""
        return self.apart().pick(rows)

    def apart(self) -> KeyValue:
        """The past of every row by itself, copied."""
        if not isinstance(self.lineage, Branches):
            raise TypeError("a room of fixed size is not taken apart")
        return KeyValue(self.lineage.pasts(self.kept.key), self.lineage.pasts(self.kept.value))
