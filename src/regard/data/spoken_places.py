"""Which word was said? A recording of one digit, a written row of different digit words, and the place of the one in the other.

Places are taken in turn, so that every batch is balanced. The words and their order are drawn uniformly: the sound alone
does not tell the place, and neither does the text.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from jaxtyping import Int, Shaped
from numpy.typing import NDArray
from torch import Tensor

from regard.data.augment import SoundJitter
from regard.data.batches import END, Both, Labelled, Sequences, Sounds
from regard.data.digit_pairs import by_class, heard, members, silent
from regard.data.draws import Fresh, uniform
from regard.data.numbers import english
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError

DIGITS = 10
WORDS = tuple(english(digit) for digit in range(DIGITS))
PLACES = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")

Removed = Literal["nothing", "text", "order", "sound"]


class SpokenPlaceFeed(Fresh):
    """Recordings, texts and places that no epoch repeats: epoch e has the numbers from e × samples on."""

    def __init__(
        self,
        sounds: Sequence[Shaped[Tensor, " _"]],
        said: Int[Tensor, " n"],  # the digit of every sound
        *,
        tokenizer: Tokenizer,
        words: int = 4,  # of a text
        seed: int,
        rows: int = 64,
        samples: int = 8192,
        jitter: SoundJitter | None = None,
        without: Removed = "nothing",
    ) -> None:
        super().__init__(seed=seed, rows=rows, samples=samples)
        if len(sounds) != len(said):
            raise RegardError(f"{len(sounds)} sounds and {len(said)} digits of them: give one each")
        if set(said.tolist()) != set(range(DIGITS)):
            raise RegardError(
                f"digits {sorted(set(said.tolist()))} are said: give recordings of all from 0 to 9"
            )
        if not 2 <= words <= DIGITS:
            raise RegardError(f"words={words}: a text has from 2 to {DIGITS} different digit words")
        self.sounds, self.said, self.words, self.without = sounds, said, words, without
        self.jitter, self.tokenizer = jitter or SoundJitter(), tokenizer
        self._groups = by_class(said)

    def batch(self, samples: Sequence[int]) -> Labelled[Both[Sounds, Sequences]]:
        """These recordings and texts, and the place of what was said: a pure function of (seed, number)."""
        sounds, texts, places = self.drawn(samples)
        given = (
            silent(len(samples))
            if self.without == "sound"
            else heard([self.sounds[each] for each in sounds], samples, jitter=self.jitter, seed=self.seed)
        )
        tokens = Sequences.of([[*ids, END] for ids in self.tokenizer.encode_all(texts)])
        return Labelled(Both(given, tokens), torch.tensor(places))

    def drawn(self, samples: Sequence[int]) -> tuple[list[int], list[str], list[int]]:
        """Which recording and which text each sample is made of, and the place of the word."""
        draws = uniform(samples, 2 * DIGITS + 1, seed=self.seed)
        digits = draws[:, :DIGITS].argsort(1)[:, : self.words]
        places = np.asarray(samples, np.int64) % self.words
        said = np.take_along_axis(digits, places[:, None], 1)[:, 0]
        return members(self._groups, said, draws[:, -1]), self._texts(digits, draws), places.tolist()

    def _texts(self, digits: NDArray[np.int64], draws: NDArray[np.float64]) -> list[str]:
        if self.without == "text":
            return [""] * len(digits)
        if self.without == "order":  # the same words in an order that has nothing to do with the label
            order = draws[:, DIGITS : DIGITS + self.words].argsort(1)
            digits = np.take_along_axis(digits, order, 1)
        return [" ".join(WORDS[digit] for digit in row) for row in digits.tolist()]
