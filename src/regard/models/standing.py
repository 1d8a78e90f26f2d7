"""A decoder that stands: all it reads and writes stays where it is, so that every step is the same work.

A GPU can then record a step once and repeat it without being told how.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.keyvalue import KeyValue
from regard.attention.lineage import SharedPast
from regard.attention.reach import Extent, Reach
from regard.attention.standing import StandingLineage, Written
from regard.layers.embedding import Embedding
from regard.layers.positions import Tabled
from regard.models.memory import Memory

_ROUND = 16  # positions of a memory: kernels want rows of masks that begin at even addresses

Advance = Callable[[Tensor, Tabled, Memory, Iterable[SharedPast]], tuple[Tensor, object]]


@dataclass(frozen=True, eq=False)
class StandingMemory(Memory):
    """A memory whose lengths stand in a tensor."""

    within: Reach | None = None

    @property
    def reach(self) -> Reach:
        """What there is now."""
        if self.within is None:
            raise TypeError("a standing memory knows its reach")
        return self.within


class Standing:
    """`group` texts of each source, in rooms for so many tokens."""

    def __init__(
        self, advance: Advance, embedding: Embedding, memory: Memory, *, room: int, group: int
    ) -> None:
        key = memory.layers[0].key
        sources, size = key.shape[0], -(-key.shape[-2] // _ROUND) * _ROUND
        self._advance = advance
        self._lineage = StandingLineage(sources, group, room, dtype=key.dtype, device=key.device)
        self._offset = embedding.placed(self._lineage.at, count=room)
        layers = tuple(_like(layer, size) for layer in memory.layers)
        extent, lengths = Extent(queries=group, keys=size, device=key.device), memory.lengths.clone()
        within = Written(extent=extent, filled=lengths, dtype=key.dtype)
        self._memory = StandingMemory(layers, lengths, group, within)
        self._pasts = tuple(SharedPast(_like(layer, self._lineage.size), self._lineage) for layer in layers)
        self._take(memory)

    @property
    def at(self) -> Int[Tensor, " 1"]:
        """How many tokens are written."""
        return self._lineage.at

    def take(self, state: Any) -> None:
        """Begin anew with the sources of a started state, which may be shorter."""
        self._take(state.memory)

    def _take(self, memory: Memory) -> None:
        size = memory.layers[0].length
        for held, new in zip(self._memory.layers, memory.layers, strict=True):
            held.key[..., :size, :].copy_(new.key)
            held.value[..., :size, :].copy_(new.value)
        self._memory.lengths.copy_(memory.lengths)
        self._lineage.reset()

    def step(self, tokens: Int[Tensor, " rows"]) -> Float[Tensor, "rows vocabulary"]:
        """The logits of what follows these tokens."""
        return self._advance(tokens, self._offset, self._memory, self._pasts)[0]

    def go_on(self, parents: Int[Tensor, "sources group"] | None = None) -> None:
        """To the next position, each row from one of its source; None: each from itself."""
        self._lineage.go_on(parents)


def _like(kept: KeyValue, size: int) -> KeyValue:
    """A room of this size for what is shaped like this, filled with zeros: numbers that nobody looks at."""
    key, value = (part.new_zeros(*part.shape[:-2], size, part.shape[-1]) for part in (kept.key, kept.value))
    return KeyValue(key, value)
