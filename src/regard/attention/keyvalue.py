"""What a decoder keeps of positions it has passed: their keys and values, in a storage that grows."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


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
        """The same, with the positions of a head side by side, as products want them: for one who asks often."""
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
    past the version counters for that reason: whoever watches holds them against the calls seen.
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
