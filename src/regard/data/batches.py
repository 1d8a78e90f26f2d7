"""Batches: what a model is handed at once. Sequences are filled up at the right, and know their lengths."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor

from regard.errors import RegardError

PAD, START, END, UNKNOWN = 0, 1, 2, 3  # the first tokens of every vocabulary
SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")


@dataclass(frozen=True, eq=False)
class Sequences:
    """Some sequences of tokens, one a row."""

    tokens: Int[Tensor, "b n"]
    lengths: Int[Tensor, " b"]

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> "Sequences":
        """Lists of tokens, filled up with PAD to the longest."""
        if not rows:
            raise RegardError("a batch of no sequences")
        longest = max(map(len, rows))
        filled = [[*row, *[PAD] * (longest - len(row))] for row in rows]
        tokens = torch.tensor(filled, dtype=torch.long).reshape(len(rows), longest)
        return cls(tokens, torch.tensor([len(row) for row in rows]))

    def to(self, device: torch.device | str) -> "Sequences":
        """The same on another device."""
        return Sequences(
            self.tokens.to(device, non_blocking=True), self.lengths.to(device, non_blocking=True)
        )

    def __len__(self) -> int:
        return self.tokens.shape[0]

    @property
    def real(self) -> Tensor:
        """[b, n]: which tokens are not filling."""
        return torch.arange(self.tokens.shape[1], device=self.tokens.device) < self.lengths[:, None]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Sources and what they become. Both sides end with END; the decoder's input, which begins with START, is the
    model's affair.
    """

    source: Sequences
    target: Sequences

    def to(self, device: torch.device | str) -> "Pairs":
        """The same on another device."""
        return Pairs(self.source.to(device), self.target.to(device))

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True, eq=False)
class Labelled:
    """Sequences and the class of each."""

    sequences: Sequences
    labels: Int[Tensor, " b"]

    def to(self, device: torch.device | str) -> "Labelled":
        """The same on another device."""
        return Labelled(self.sequences.to(device), self.labels.to(device, non_blocking=True))

    def __len__(self) -> int:
        return len(self.sequences)


@runtime_checkable
class Batch(Protocol):
    """What a model learns from at once."""

    def to(self, device: torch.device | str) -> "Batch":
        """The same on another device."""

    def __len__(self) -> int: ...


AnyBatch = TypeVar("AnyBatch", bound=Batch, covariant=True)


@runtime_checkable
class Feed(Protocol[AnyBatch]):
    """What training is fed with: samples by number, and the order they come in."""

    def order(self, epoch: int) -> Sequence[Sequence[int]]:
        """The batches of an epoch as numbers of samples, each sample once: a pure function of (seed, epoch)."""

    def batch(self, samples: Sequence[int]) -> AnyBatch:
        """These samples as a batch."""


def each_once(feed: Feed[AnyBatch]) -> Iterator[AnyBatch]:
    """Every sample once, in the order of epoch 0: for validation."""
    for samples in feed.order(0):
        yield feed.batch(samples)
