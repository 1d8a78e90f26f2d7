"""What a decoder remembers of its sources while it writes, once a source however many rows ask it."""

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Int
from torch import Tensor

from regard.attention.kv_cache import KeyValue
from regard.attention.masks import Mask, lengths
from regard.attention.reach import Extent, Reach


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
        """The memory of these rows. Nothing is copied while the same sources are asked by equally many rows each."""
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
        """The memory of those that are asked."""
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
