"""A room for pasts that stays where it is and as large as it is, so that every step is the same work.

That is what a GPU can record once and repeat: where a step writes and what it may look at stand in tensors.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.keyvalue import KeyValue
from regard.attention.lineage import Lineage
from regard.attention.reach import Extent, Reach

_ROUND = 16  # slots: kernels want masks whose rows begin at even addresses


@dataclass(frozen=True, kw_only=True, eq=False)
class Written(Reach):
    """A reach that stands in tensors. A query that may look at nothing is for the kernel that asks, which gives zeros."""

    filled: Int[
        Tensor, " _b"
    ]  # keys that are there, for all or for each of the batch; those behind are never seen
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

    def looking(self) -> None:
        """Everybody."""

    def seen(self) -> None:
        """Nobody asks: what lies in the room are numbers."""


class StandingLineage(Lineage):
    """Who came from whom, in tensors that are changed in place."""

    stays = True

    def __init__(
        self, sources: int, group: int, room: int, *, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.group, self.room = group, room
        size = -(-(room + 1) * group // _ROUND) * _ROUND  # the last step makes ready for one more
        # All that is counted, side by side, so that one addition moves it on.
        self._counts = torch.zeros(2 + group, dtype=torch.long, device=device)
        self.at = self._counts[:1]  # the position of the next tokens
        self._filled = self._counts[1:2]  # how many slots are taken after this step
        self._slots = self._counts[2:]  # where its keys lie
        self._first = torch.tensor([0, group, *range(group)], device=device)
        self._more = torch.tensor([1, *[group] * (1 + group)], device=device)
        # What each row of a source sees. One by itself sees all that is there.
        scores = torch.empty(sources, 1, group, size, dtype=dtype, device=device)
        self._scores = scores if group > 1 else None
        self.size, self._dtype = size, dtype
        self.reset()

    def reset(self) -> None:
        """Nothing is written, nothing is seen."""
        self._counts.copy_(self._first)
        if self._scores is not None:
            self._scores.fill_(-torch.inf)
            self._see_own(self._scores)

    def _see_own(self, scores: Tensor) -> None:
        own = self._slots[None, None, :, None].expand(len(scores), 1, -1, 1)
        scores.scatter_(-1, own, 0.0)

    @property
    def offset(self) -> Int[Tensor, " 1"]:
        """Where they stand."""
        return self.at

    def grown(self) -> "StandingLineage":
        """The slots are there already."""
        return self

    def put(self, kept: KeyValue, newer: KeyValue) -> KeyValue:
        """In the slots of this step."""
        kept.key.index_copy_(-2, self._slots, newer.key)
        kept.value.index_copy_(-2, self._slots, newer.value)
        return kept

    @property
    def reach(self) -> Reach:
        """What is seen at this step."""
        extent = Extent(queries=self.group, keys=self.size, device=self._filled.device)
        return Written(extent=extent, filled=self._filled, scores=self._scores, dtype=self._dtype)

    def go_on(self, parents: Int[Tensor, "s group"] | None) -> None:
        """To the next step, each row from one of its source; None: each from itself."""
        self._counts += self._more
        if self._scores is None:
            return
        if parents is not None:
            rows = parents[:, None, :, None].expand_as(self._scores)
            self._scores.copy_(self._scores.gather(2, rows))
        self._see_own(self._scores)
