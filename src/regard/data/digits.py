"""Handwritten digits, 8 × 8, that come with the package.

They are the 1,797 samples of the test part of "Optical Recognition of Handwritten Digits" by E. Alpaydin and
C. Kaynak (1998), UCI Machine Learning Repository, https://doi.org/10.24432/C50P49, under CC BY 4.0; see digits.txt.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from regard.data.draws import mixed
from regard.data.idx import read_idx_pair

SIDE = 8  # pixels
_INK = 16  # the largest number in the files
_SEED = 1998  # of the split; another would be another task


@dataclass(frozen=True, kw_only=True)
class Split:
    """Numbers of samples: each digit in the same proportions in every part."""

    train: tuple[int, ...]  # seven tenths
    valid: tuple[int, ...]  # a tenth, to choose by
    test: tuple[int, ...]  # a fifth, to report

    @property
    def all_but_test(self) -> tuple[int, ...]:
        """Four fifths, for who has nothing to choose."""
        return tuple(sorted(self.train + self.valid))


def digits() -> tuple[Float[Tensor, "n 1 8 8"], Int[Tensor, " n"]]:
    """All pictures, 0 for paper and 1 for ink, and which digit each is."""
    pixels, labels = _held()
    return pixels.clone(), labels.clone()


def digit_split() -> Split:
    """Which digits are to learn from and which are held out: always the same ones, stratified and shuffled."""
    return stratified(_held()[1].tolist(), seed=_SEED)


def stratified(labels: Sequence[int], *, seed: int) -> Split:
    """Of every class a fifth for testing and a tenth for validation, to the nearest sample, chosen by a hash."""
    numbers = np.arange(len(labels), dtype=np.uint64)
    keys = mixed(numbers + mixed(np.array([seed], np.uint64)))  # no generator's future versions can change it
    parts: tuple[list[int], list[int], list[int]] = ([], [], [])
    for label in sorted(set(labels)):
        members = np.flatnonzero(np.asarray(labels) == label)
        members = members[np.argsort(keys[members], kind="stable")]
        test, valid = round(len(members) / 5), round(len(members) / 10)
        for part, chosen in zip(parts, np.split(members, [test, test + valid]), strict=True):
            part += chosen.tolist()
    held_out, valid_, train = (tuple(sorted(part)) for part in parts)
    return Split(train=train, valid=valid_, test=held_out)


@cache
def _held() -> tuple[Tensor, Tensor]:
    folder = Path(__file__).parent
    images, labels = (str(folder / f"digits-{kind}-ubyte.gz") for kind in ("images-idx3", "labels-idx1"))
    pixels, classes = read_idx_pair(images, labels)
    return pixels.float() / _INK, classes
