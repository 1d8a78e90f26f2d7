"""The reader's task: a strip of handwritten digits, read out in French words ("342" → "trois cent quarante-deux").

A strip is 8 × 48: one to six digits side by side, set to the right as in a column of figures, so that ones stand
under ones; blank (0) to the left of them. No number begins with a zero but zero itself. How many digits is drawn
uniformly, then each digit, then which handwritten one; so what is held out are handwritten digits, whereas a short number
may well be met again, written with others.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.data.augment import Jitter, jitter_images
from regard.data.batches import END, Images, Pairs, Sequences
from regard.data.digits import SIDE, digits
from regard.data.draws import Fresh, uniform
from regard.data.numbers import french
from regard.errors import RegardError

MAX_DIGITS = 6  # digits in a strip
WIDTH = MAX_DIGITS * SIDE  # pixels

_TEENS = {"dix", "onze", "douze", "treize", "quatorze", "quinze", "seize"}


@runtime_checkable
class Encodes(Protocol):
    """What turns texts into tokens, such as a Tokenizer."""

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of every text."""


@dataclass(frozen=True, eq=False)
class Strips:
    """Pictures of numbers, and the numbers."""

    pixels: Float[Tensor, "b 1 8 48"]
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Spoken:
    """A word of a number, its place in the text, and which digits it renders, counted from the left."""

    word: str
    start: int  # the place of its first letter
    digits: tuple[int, ...]


class Hand:
    """Handwritten digits to write numbers with: some samples of those that come with the package."""

    def __init__(self, samples: Sequence[int]) -> None:
        pixels, labels = digits()
        if any(not 0 <= sample < len(labels) for sample in samples):
            raise RegardError(f"samples are numbered from 0 to {len(labels) - 1}")
        chosen = torch.tensor([*samples], dtype=torch.long)
        chosen = chosen[labels[chosen].argsort(stable=True)]
        self.pixels = pixels[chosen]  # sorted by digit
        self.counts = np.bincount(labels[chosen].numpy(), minlength=10)
        if missing := np.flatnonzero(self.counts == 0).tolist():
            raise RegardError(
                f"of {len(samples)} samples none is a {missing[0]}: every number must be writable"
            )
        self.firsts = np.cumsum(self.counts) - self.counts

    def strips(self, samples: Sequence[int], *, seed: int, jitter: Jitter | None = None) -> Strips:
        """The strips of these numbers of samples: a pure function of (seed, number). Each digit is jittered by itself."""
        drawn = uniform(samples, 1 + 2 * MAX_DIGITS, seed=seed)
        lengths = 1 + (drawn[:, 0] * MAX_DIGITS).astype(np.int64)
        least = np.zeros((len(drawn), MAX_DIGITS), np.int64)
        least[:, 0] = lengths > 1  # no zero in front
        values = least + (drawn[:, 1 : MAX_DIGITS + 1] * (10 - least)).astype(np.int64)
        which = self.firsts[values] + (drawn[:, MAX_DIGITS + 1 :] * self.counts[values]).astype(np.int64)
        pieces = self.pixels[torch.from_numpy(which.reshape(-1))]
        if jitter is not None:
            places = np.asarray(samples, np.int64)[:, None] * MAX_DIGITS + np.arange(MAX_DIGITS)
            pieces = jitter_images(pieces, places.reshape(-1).tolist(), jitter=jitter, seed=seed)
        pieces = pieces.reshape(len(drawn), MAX_DIGITS, SIDE, SIDE)
        written = torch.from_numpy(np.arange(MAX_DIGITS) < lengths[:, None])
        pieces = pieces * written[:, :, None, None]
        order = torch.from_numpy((np.arange(MAX_DIGITS) + lengths[:, None]) % MAX_DIGITS)  # blanks first
        pieces = pieces[torch.arange(len(drawn))[:, None], order]
        pixels = pieces.transpose(1, 2).reshape(len(drawn), 1, SIDE, WIDTH)
        numbers = (int("".join(map(str, row[:length]))) for row, length in zip(values, lengths, strict=True))
        return Strips(pixels, tuple(numbers))


class ReaderFeed(Fresh):
    """Strips and what they are in French. No epoch repeats a strip: epoch e has the numbers from e × samples on."""

    def __init__(
        self,
        hand: Hand,
        tokenizer: Encodes,
        *,
        seed: int,
        rows: int = 64,
        samples: int = 8192,
        jitter: Jitter | None = None,
    ) -> None:
        super().__init__(seed=seed, rows=rows, samples=samples)
        self.hand, self.tokenizer, self.jitter = hand, tokenizer, jitter

    def batch(self, samples: Sequence[int]) -> Pairs[Images]:
        """These strips, and their words ended by END."""
        strips = self.hand.strips(samples, seed=self.seed, jitter=self.jitter)
        texts = self.tokenizer.encode_all([french(number) for number in strips.numbers])
        return Pairs(Images(strips.pixels), Sequences.of([[*text, END] for text in texts]))


def spoken(number: int) -> list[Spoken]:
    """The words of `french(number)`, hyphens cut, each with the digits it renders.

    - un … neuf and zéro: the digit they name; vingt … soixante and quatre-vingt(s): the tens
    - dix … seize say tens and ones in one word, so they render both (also in soixante-dix, quatre-vingt-onze); but in
      dix-sept, dix-huit and dix-neuf, dix renders the tens alone
    - et: the ones, for it is their 1 that it is said for (vingt et un, soixante et onze)
    - cent(s): the hundreds; mille: the digit in the place of the thousands, be it a zero (dix mille)
    """
    if not 0 <= number < 10**MAX_DIGITS:
        raise RegardError(f"number {number}: give one of at most {MAX_DIGITS} digits")
    found = [*re.finditer(r"[^ -]+", french(number))]
    words = [match.group() for match in found]
    last = len(str(number)) - 1
    rendered: list[tuple[int, ...]] = []
    if "mille" in words:
        cut = words.index("mille")
        rendered += [*_group(words[:cut], number // 1000, last - 3), (last - 3,)]
        words = words[cut + 1 :]
    rendered += _group(words, number % 1000, last)
    return [Spoken(match.group(), match.start(), where) for match, where in zip(found, rendered, strict=True)]


def _group(words: Sequence[str], number: int, ones: int) -> list[tuple[int, ...]]:
    """The digits behind the words of a number below a thousand, whose last digit is at the place `ones`."""
    tens, hundreds = ones - 1, ones - 2
    hundred = next((place + 1 for place, word in enumerate(words) if word.startswith("cent")), 0)
    rest = words[hundred:]
    digit = number // 10 % 10
    front = 0 if digit < 2 else 2 if digit > 7 else 1  # the words of vingt … soixante, or of quatre-vingt
    rendered: list[tuple[int, ...]] = [*[(hundreds,)] * hundred, *[(tens,)] * front]
    for place, word in enumerate(rest[front:], start=front):
        if word in _TEENS:
            rendered.append((tens, ones) if place == len(rest) - 1 else (tens,))
        else:
            rendered.append((ones,))
    return rendered
