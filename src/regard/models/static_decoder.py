"""Static cache of a decoder: tensors of one shape in one place, so that every step is the same work.

That is what a CUDA graph can replay. The cache holds no reference to its model.
"""

from dataclasses import dataclass
from typing import Any

from jaxtyping import Int
from torch import Tensor

from regard.attention.kv_cache import BeamCache, KeyValue, Memory
from regard.attention.reach import Extent, Reach
from regard.attention.static_cache import StaticReach, StaticSlots
from regard.layers.embedding import Embedding

_MULTIPLE = 16  # of positions of a memory: kernels want rows of masks that begin at aligned addresses


@dataclass(frozen=True, eq=False)
class StaticMemory(Memory):
    """A memory of fixed size, whose lengths are known on the device alone."""

    within: Reach | None = None

    @property
    def reach(self) -> Reach:
        """What there is now."""
        if self.within is None:
            raise TypeError("a static memory needs its reach")
        return self.within


class StaticDecoder:
    """Memory, KV caches and position of `group` texts of each source, of at most `capacity` tokens."""

    def __init__(self, embedding: Embedding, memory: Memory, *, capacity: int, group: int) -> None:
        key = memory.layers[0].key
        sources, size = key.shape[0], -(-key.shape[-2] // _MULTIPLE) * _MULTIPLE
        self._slots = StaticSlots(sources, group, capacity, dtype=key.dtype, device=key.device)
        self.offset = embedding.placed(self._slots.at, count=capacity)
        layers = tuple(_zeros_like(layer, size) for layer in memory.layers)
        extent, lengths = Extent(queries=group, keys=size, device=key.device), memory.lengths.clone()
        within = StaticReach(extent=extent, filled=lengths, dtype=key.dtype)
        self.memory = StaticMemory(layers, lengths, group, within)
        self.pasts = tuple(BeamCache(_zeros_like(layer, self._slots.size), self._slots) for layer in layers)
        self._take(memory)

    @property
    def at(self) -> Int[Tensor, " 1"]:
        """How many tokens are written."""
        return self._slots.at

    def take(self, state: Any) -> None:
        """Start over with the sources of a state that `start` returned, which may be shorter."""
        self._take(state.memory)

    def _take(self, memory: Memory) -> None:
        size = memory.layers[0].length
        for held, new in zip(self.memory.layers, memory.layers, strict=True):
            held.key[..., :size, :].copy_(new.key)
            held.value[..., :size, :].copy_(new.value)
        self.memory.lengths.copy_(memory.lengths)
        self._slots.reset()

    def advance(self, parents: Int[Tensor, "sources group"] | None = None) -> None:
        """To the next position, each row from one of its source; None: each from itself."""
        self._slots.advance(parents)


def _zeros_like(kept: KeyValue, size: int) -> KeyValue:
    """Keys and values of this shape but for their number, filled with zeros: finite where nothing is written yet."""
    key, value = (part.new_zeros(*part.shape[:-2], size, part.shape[-1]) for part in (kept.key, kept.value))
    return KeyValue(key, value)
