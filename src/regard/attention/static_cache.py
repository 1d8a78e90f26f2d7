"""Fixed-size KV cache, usable under CUDA graphs: where a step writes and what it may look at are tensors."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.kv_cache import KeyValue, Slots
from regard.attention.reach import Extent, Reach

_MULTIPLE = 16  # of slots: kernels want masks whose rows begin at aligned addresses


@dataclass(kw_only=True, eq=False)
class StaticReach(Reach):
    """The reach of a fixed-size cache: how much of it is filled is known on the device alone."""

    filled: Int[Tensor, " _b"]  # keys that are there, for all or for each of the batch
    scores: Float[Tensor, "*b q k"] | None = None  # what is added; None: 0 for all that are there
    dtype: torch.dtype  # of what is added

    @property
    def everything(self) -> bool:
        """Never known in advance."""
        return False

    def matrix(self) -> Tensor:
        """Where something is added that is not −inf."""
        return self.added() > -torch.inf

    def added(self) -> Tensor:
        """As it is, or written out."""
        if self.scores is not None:
            return self.scores
        there = self.extent.columns < self.filled[:, None, None, None]
        return torch.zeros((), dtype=self.dtype, device=there.device).where(there, -torch.inf)

    def looking(self) -> Bool[Tensor, "b 1 1"]:
        """Queries of a source that has keys."""
        return (self.filled > 0)[:, None, None]

    def seen(self) -> None:
        """All: a static cache holds finite numbers everywhere."""


class StaticSlots(Slots):
    """Slots of a fixed-size cache, in tensors that are changed in place."""

    in_place = True

    def __init__(
        self, sources: int, group: int, capacity: int, *, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.group, self.capacity = group, capacity
        # The last step prepares for one more.
        size = -(-(capacity + 1) * group // _MULTIPLE) * _MULTIPLE
        # All counters side by side, so that one addition moves them on.
        self._counts = torch.zeros(2 + group, dtype=torch.long, device=device)
        self.at = self._counts[:1]  # the position of the next tokens
        self._filled = self._counts[1:2]  # how many slots are taken after this step
        self._own = self._counts[2:]  # the slots that this step writes
        self._first = torch.tensor([0, group, *range(group)], device=device)
        self._more = torch.tensor([1, *[group] * (1 + group)], device=device)
        # What each row of a source may look at. A row by itself sees all that is there.
        scores = torch.empty(sources, 1, group, size, dtype=dtype, device=device)
        self._scores = scores if group > 1 else None
        self._sources, self.size, self._dtype = sources, size, dtype
        self.reset()

    def reset(self) -> None:
        """Nothing is written, nothing is seen."""
        self._counts.copy_(self._first)
        if self._scores is not None:
            self._scores.fill_(-torch.inf)
            self._see_own(self._scores)

    def _see_own(self, scores: Tensor) -> None:
        own = self._own[None, None, :, None].expand(len(scores), 1, -1, 1)
        scores.scatter_(-1, own, 0.0)

    @property
    def offset(self) -> Int[Tensor, " 1"]:
        """On the device."""
        return self.at

    def grown(self) -> "StaticSlots":
        """The slots are there already."""
        return self

    def put(self, kept: KeyValue, newer: KeyValue) -> KeyValue:
        """In the slots of this step."""
        kept.key.index_copy_(-2, self._own, newer.key)
        kept.value.index_copy_(-2, self._own, newer.value)
        return kept

    @property
    def reach(self) -> StaticReach:
        """What is seen at this step."""
        extent = Extent(queries=self.group, keys=self.size, device=self._filled.device)
        return StaticReach(extent=extent, filled=self._filled, scores=self._scores, dtype=self._dtype)

    def of_rows(self) -> Int[Tensor, "s n t"]:
        """Those that are seen: each step writes behind the one before, so they are in order."""
        length = int(self.at) + 1
        if self._scores is None:
            return torch.arange(length, device=self.at.device).expand(self._sources, 1, length)
        seen = (self._scores[:, 0] > -torch.inf).nonzero()[:, -1]
        return seen.reshape(self._sources, self.group, length)

    def advance(self, parents: Int[Tensor, "s group"] | None) -> None:
        """To the next step, each row from one of its source; None: each from itself."""
        self._counts += self._more
        if self._scores is None:
            return
        if parents is not None:
            rows = parents[:, None, :, None].expand_as(self._scores)
            self._scores.copy_(self._scores.gather(2, rows))
        self._see_own(self._scores)
