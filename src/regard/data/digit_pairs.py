"""Same or different: is the digit in the picture the digit that is said? Neither sense alone can tell.

Even numbers of samples are the same and odd ones different, so that every batch is balanced. The picture's digit is
drawn uniformly, and so, either way, is the sound's: what one sense brings says nothing about the answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Int, Shaped
from numpy.typing import NDArray
from torch import Tensor

from regard.data.audio import together
from regard.data.augment import Jitter, SoundJitter, jitter_images, jitter_sound
from regard.data.batches import Both, Images, Labelled, Sounds
from regard.data.draws import Fresh, uniform
from regard.data.media_values import as_pixels, as_samples
from regard.errors import RegardError

DIFFERENT, SAME = 0, 1
SILENCE = 4000  # samples in place of a sound that was removed


@dataclass(frozen=True, eq=False, kw_only=True)
class Senses:
    """Pictures and sounds of some classes, from which pairs are drawn."""

    pixels: Shaped[Tensor, "n channels height width"]  # floats or whole numbers, see data/given
    shown: Int[Tensor, " n"]  # the class of every picture
    sounds: Sequence[Shaped[Tensor, " _"]]
    said: Int[Tensor, " m"]  # the class of every sound

    def __post_init__(self) -> None:
        if len(self.sounds) != len(self.said):
            raise RegardError(
                f"{len(self.sounds)} sounds and {len(self.said)} classes of them: give one each"
            )
        shown, said = set(self.shown.tolist()), set(self.said.tolist())
        if shown != said or len(shown) < 2:
            raise RegardError(
                f"classes {sorted(shown)} are shown and {sorted(said)} said: give the same, at least two"
            )


class DigitMatchFeed(Fresh):
    """Pairs that no epoch repeats: epoch e has the numbers from e × samples on."""

    def __init__(
        self,
        senses: Senses,
        *,
        seed: int,
        rows: int = 64,
        samples: int = 8192,
        jitter: Jitter | None = None,
        sound_jitter: SoundJitter | None = None,
        without: Literal["nothing", "image", "sound"] = "nothing",
    ) -> None:
        super().__init__(seed=seed, rows=rows, samples=samples)
        self.senses, self.without = senses, without
        self.jitter, self.sound_jitter = jitter or Jitter(), sound_jitter or SoundJitter()
        self._shown, self._said = by_class(senses.shown), by_class(senses.said)

    def batch(self, samples: Sequence[int]) -> Labelled[Both[Images, Sounds]]:
        """These pairs, and for each whether it is the same: a pure function of (seed, number)."""
        pictures, sounds, labels = self.drawn(samples)
        shown = as_pixels(self.senses.pixels[pictures])
        pixels = jitter_images(shown, samples, jitter=self.jitter, seed=self.seed)
        if self.without == "image":
            pixels = torch.zeros_like(pixels)
        said = (
            silent(len(samples))
            if self.without == "sound"
            else heard(
                [self.senses.sounds[sound] for sound in sounds],
                samples,
                jitter=self.sound_jitter,
                seed=self.seed,
            )
        )
        return Labelled(Both(Images(pixels), said), torch.tensor(labels))

    def drawn(self, samples: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
        """Which picture and which sound each pair is made of, and whether they are the same."""
        classes = len(self._shown)
        first, other, picture, sound = uniform(samples, 4, seed=self.seed).T
        labels = np.where(np.asarray(samples, np.int64) % 2 == 0, SAME, DIFFERENT)
        shown = (first * classes).astype(np.int64)
        away = 1 + (other * (classes - 1)).astype(np.int64)  # any of the other classes
        said = np.where(labels == SAME, shown, (shown + away) % classes)
        return members(self._shown, shown, picture), members(self._said, said, sound), labels.tolist()


def heard(
    sounds: Sequence[Shaped[Tensor, " _"]], samples: Sequence[int], *, jitter: SoundJitter, seed: int
) -> Sounds:
    """The recordings of these samples as one batch, each jittered by its number."""
    return together(
        [
            jitter_sound(as_samples(sound), number, jitter=jitter, seed=seed)
            for sound, number in zip(sounds, samples, strict=True)
        ]
    )


def silent(count: int) -> Sounds:
    """Recordings of nothing, of one length for all: the length of a recording would reveal the digit."""
    return together([torch.zeros(SILENCE)] * count)


def by_class(labels: Tensor) -> list[NDArray[np.int64]]:
    """The numbers of the samples of each class, classes in ascending order."""
    values = labels.numpy()
    return [np.flatnonzero(values == label) for label in np.unique(values)]


def members(
    groups: Sequence[NDArray[np.int64]], classes: NDArray[np.int64], drawn: NDArray[np.float64]
) -> list[int]:
    """A sample of each of these classes, chosen by a number from [0, 1)."""
    return [
        int(groups[number][int(place * len(groups[number]))])
        for number, place in zip(classes.tolist(), drawn.tolist(), strict=True)
    ]
