"""The counter's task: of ten digits, are there more 4s than 2s? Fresh samples without end."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.batches import SPECIAL, Labelled, Sequences
from regard.data.draws import mixed
from regard.data.feeds import Order
from regard.errors import RegardError

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


class CountFeed:
    """Samples that no epoch repeats: epoch e has the numbers from e × samples on."""

    def __init__(self, *, seed: int, rows: int = 256, samples: int = 65_536) -> None:
        if rows < 1 or samples < 1 or seed < 0:
            raise RegardError(
                f"rows={rows}, samples={samples}, seed={seed}: give at least 1 of each, a seed from 0"
            )
        self.seed, self.rows, self.samples = seed, rows, samples

    def order(self, epoch: int) -> Order:
        """The fresh samples of an epoch. They are drawn independently, so there is nothing to shuffle."""
        if epoch < 0:
            raise RegardError(f"epoch={epoch}: give a number from 0")
        numbers = np.arange(epoch * self.samples, (epoch + 1) * self.samples, dtype=np.int64)
        starts = np.arange(0, self.samples, self.rows, dtype=np.int64)
        return Order(numbers, starts, np.minimum(starts + self.rows, self.samples))

    def batch(self, samples: Sequence[int]) -> Labelled:
        """These samples."""
        return samples_at(samples, seed=self.seed)


def _drawn(places: NDArray[np.uint64], seed: int) -> NDArray[np.int64]:
    """A digit for every place of a long random row, without walking along it (SplitMix64, Steele 2014)."""
    with np.errstate(over="ignore"):
        x = places + mixed(np.array([seed], np.uint64))  # rows of two seeds do not lie side by side
        return (mixed(x) % np.uint64(10)).astype(np.int64)
