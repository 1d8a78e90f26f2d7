"""The counter's task: of ten digits, are there more 4s than 2s? Fresh samples without end."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.batches import SPECIAL, Labelled, Sequences
from regard.data.draws import Fresh, mixed

DIGITS = 10  # in a sample
FIRST = len(SPECIAL)  # the token of the digit 0
VOCABULARY = FIRST + 10
CLASSES = 2  # 1: more 4s than 2s


def count_samples(count: int, *, seed: int) -> Labelled:
    """The first samples of a seed."""
    return samples_at(range(count), seed=seed)


def samples_at(samples: Sequence[int], *, seed: int) -> Labelled:
    """The samples of these numbers: a pure function of (seed, number). The digit d is the token FIRST + d."""
    numbers = np.asarray(samples, np.int64)
    digits = _drawn((DIGITS * numbers[:, None] + np.arange(DIGITS)).astype(np.uint64), seed)
    labels = (digits == 4).sum(1) > (digits == 2).sum(1)
    lengths = torch.full((len(numbers),), DIGITS)
    sequences = Sequences(torch.from_numpy(digits + FIRST), lengths)
    return Labelled(sequences, torch.from_numpy(labels.astype(np.int64)))


class CountFeed(Fresh):
    """Samples that no epoch repeats: epoch e has the numbers from e × samples on."""

    def __init__(self, *, seed: int, rows: int = 256, samples: int = 65_536) -> None:
        super().__init__(seed=seed, rows=rows, samples=samples)

    def batch(self, samples: Sequence[int]) -> Labelled:
        """These samples."""
        return samples_at(samples, seed=self.seed)


def _drawn(places: NDArray[np.uint64], seed: int) -> NDArray[np.int64]:
    """A digit for every place of a long random row, without walking along it (SplitMix64, Steele 2014)."""
    with np.errstate(over="ignore"):
        x = places + mixed(np.array([seed], np.uint64))  # rows of two seeds are not neighbours
        return (mixed(x) % np.uint64(10)).astype(np.int64)
