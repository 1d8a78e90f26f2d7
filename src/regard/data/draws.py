"""Numbers drawn by place: what is drawn for a sample depends on the seed and the sample alone, not on what came before."""

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regard.data.feeds import Order
from regard.errors import RegardError


def uniform(
    samples: Sequence[int] | NDArray[np.int64], count: int, *, seed: int, purpose: str = ""
) -> NDArray[np.float64]:
    """[n, count]: that many numbers from [0, 1) for every sample, a pure function of (seed, purpose, sample).

    What is drawn for two purposes is independent: else the order of samples would tell how each is jittered.
    """
    if seed < 0 or count < 1:
        raise RegardError(f"seed={seed}, count={count}: give a seed from 0 and a count from 1")
    numbers = np.asarray(samples, np.int64).reshape(-1)
    with np.errstate(over="ignore"):
        # Mixed twice, so that the rows of neighbouring samples or seeds do not overlap however long they are.
        start = mixed(np.array([seed], np.uint64))
        if purpose:
            start = mixed(start + np.uint64(zlib.crc32(purpose.encode())))
        rows = mixed(np.add(numbers.astype(np.uint64), start))
        bits = mixed(np.add(rows[:, None], np.arange(count, dtype=np.uint64)))
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def stream(sample: int, *, seed: int, purpose: str) -> np.random.Generator:
    """A generator for one sample, for who draws so much that `uniform` would be slow (Philox, Salmon 2011)."""
    key = int(2**53 * uniform([sample], 1, seed=seed, purpose=purpose)[0, 0])
    return np.random.Generator(np.random.Philox(key=key))


def mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Numbers that look random from numbers that do not (SplitMix64, Steele 2014)."""
    with np.errstate(over="ignore"):
        x = (x + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


class Fresh:
    """Samples that no epoch repeats, each drawn from (seed, number): epoch e has the numbers from e × samples on."""

    def __init__(self, *, seed: int, rows: int, samples: int) -> None:
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
