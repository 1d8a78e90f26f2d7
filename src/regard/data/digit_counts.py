"""The counter's task: of ten digits, are there more 4s than 2s? Fresh samples without end."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.batches import SPECIAL, Labelled, Sequences
from regard.data.draws import Fresh, mixed
from regard.data.given import shown
from regard.errors import RegardError

DIGITS = 10  # in a sample
FIRST = len(SPECIAL)  # the token of the digit 0
VOCABULARY = FIRST + 10
LABELS = ("no", "yes")  # are there more 4s than 2s?
CLASSES = len(LABELS)
EXAMPLE = "1 7 2 0 2 1 3 4 8 6"


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


def rows_of_digits(texts: Sequence[str]) -> Sequences:
    """Texts such as "1 7 2 0 2 1 3 4 8 6" as tokens; spaces and commas between digits are left out."""
    rows = [[*map(int, _digits_in(text))] for text in texts]
    tokens = torch.tensor(rows, dtype=torch.long).reshape(-1, DIGITS) + FIRST
    return Sequences(tokens, torch.full((len(rows),), DIGITS))


def _digits_in(text: str) -> str:
    digits = "".join(text.replace(",", " ").split())
    if not digits.isascii() or not digits.isdigit():
        raise RegardError(f'{shown(text)}: give {DIGITS} digits, as in "{EXAMPLE}"')
    if len(digits) != DIGITS:
        raise RegardError(f'{shown(text)} has {len(digits)} digits: give {DIGITS}, as in "{EXAMPLE}"')
    return digits


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
