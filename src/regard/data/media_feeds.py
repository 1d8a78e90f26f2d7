"""Feeds of pictures and of sounds, with classes or with texts.

In epoch e sample k has the number e × count + k. So the number says which sample it is, number mod count, and how it
is jittered this time; and the order of an epoch, like all else, is a pure function of the seed and the epoch.
"""

import os
from collections.abc import Sequence, Sized
from functools import partial
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Shaped
from numpy.typing import NDArray
from torch import Tensor

from regard.data.audio import judge_wav, together
from regard.data.augment import Jitter, SoundJitter, jitter_images, jitter_sound
from regard.data.batches import END, Images, Labelled, Pairs
from regard.data.draws import uniform
from regard.data.feeds import Corpus, Order
from regard.data.files import Told, read_one
from regard.data.images import Frame, judge_image
from regard.data.media_values import as_pixels, as_samples
from regard.errors import RegardError

_POOL = 32  # batches within which sounds are sorted by length


@runtime_checkable
class Numbered(Protocol):
    """Inputs by number."""

    def __len__(self) -> int: ...

    def at(self, numbers: Sequence[int]) -> Any:
        """These of them: pictures of one size as one tensor, or sounds in a list."""

    def some(self, numbers: Sequence[int]) -> Any:
        """These and no others, by new numbers."""


@runtime_checkable
class Recordings(Numbered, Protocol):
    """Sounds by number."""

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How long each is, if only in proportion to the others."""


class HeldPictures:
    """Pictures in memory, as bytes or as numbers from 0 to 1."""

    def __init__(self, pixels: Tensor) -> None:
        if pixels.ndim != 4:
            raise RegardError(
                f"pictures of the shape {[*pixels.shape]}: give [number, channels, height, width]"
            )
        self.pixels = pixels

    def __len__(self) -> int:
        return len(self.pixels)

    def at(self, numbers: Sequence[int]) -> Float[Tensor, "b channels height width"]:
        """These pictures."""
        return as_pixels(self.pixels[torch.tensor([*numbers], dtype=torch.long)])

    def some(self, numbers: Sequence[int]) -> "HeldPictures":
        """These pictures and no others, by new numbers."""
        return HeldPictures(self.pixels[torch.tensor([*numbers], dtype=torch.long)])


class FilePictures:
    """Pictures in files, read when they are wanted. A broken one stops training: sort them out by `usable_images`."""

    def __init__(self, files: Sequence[Told], frame: Frame) -> None:
        self.files, self.frame = files, frame

    def __len__(self) -> int:
        return len(self.files)

    def at(self, numbers: Sequence[int]) -> Float[Tensor, "b channels height width"]:
        """These pictures."""
        judge = partial(judge_image, frame=self.frame)
        return as_pixels(torch.stack([read_one(self.files[number].path, judge) for number in numbers]))

    def some(self, numbers: Sequence[int]) -> "FilePictures":
        """These pictures and no others, by new numbers."""
        return FilePictures([self.files[number] for number in numbers], self.frame)


class HeldRecordings:
    """Sounds in memory, all of one rate: numbers from −1 to 1, or whole ones of the full range of their type."""

    def __init__(self, sounds: Sequence[Shaped[Tensor, " _"]]) -> None:
        self.sounds = sounds
        self.lengths = np.array([len(sound) for sound in sounds], np.int64)

    def __len__(self) -> int:
        return len(self.sounds)

    def at(self, numbers: Sequence[int]) -> list[Float[Tensor, " _"]]:
        """These sounds."""
        return [as_samples(self.sounds[number]) for number in numbers]

    def some(self, numbers: Sequence[int]) -> "HeldRecordings":
        """These sounds and no others, by new numbers."""
        return HeldRecordings([self.sounds[number] for number in numbers])


class FileRecordings:
    """Sounds in files, read when they are wanted and brought to one rate: sort them out by `usable_sounds`."""

    def __init__(self, files: Sequence[Told], *, rate: int) -> None:
        self.files, self.rate = files, rate
        # The bytes of a file are as good a length to sort by, and need no reading.
        self.lengths = np.array([_size(file.path) for file in files], np.int64)

    def __len__(self) -> int:
        return len(self.files)

    def at(self, numbers: Sequence[int]) -> list[Float[Tensor, " _"]]:
        """These sounds."""
        return [read_one(self.files[number].path, judge_wav).at(self.rate) for number in numbers]

    def some(self, numbers: Sequence[int]) -> "FileRecordings":
        """These sounds and no others, by new numbers."""
        return FileRecordings([self.files[number] for number in numbers], rate=self.rate)


Expected = TypeVar("Expected", bound=Sized)


class _MediaFeed(Generic[Expected]):
    """Inputs and an answer to each, shuffled anew for every epoch, so many a batch; sounds of like lengths together."""

    def __init__(
        self,
        inputs: Numbered,
        answers: Expected,
        *,
        rows: int,
        seed: int,
        jitter: Any = None,  # a `Jitter` for pictures, a `SoundJitter` for sounds
    ) -> None:
        count = len(inputs)
        if count != len(answers):
            raise RegardError(f"{count} inputs and {len(answers)} labels or texts: give one each")
        if count < 1 or rows < 1 or seed < 0:
            raise RegardError(
                f"{count} samples, rows={rows}, seed={seed}: give at least 1 of each, a seed from 0"
            )
        self.inputs, self.answers, self.count = inputs, answers, count
        self.rows, self.seed, self.jitter = rows, seed, jitter

    def order(self, epoch: int) -> Order:
        """Every sample once."""
        if epoch < 0:
            raise RegardError(f"epoch={epoch}: give a number from 0")
        first = epoch * self.count
        keys = uniform(np.arange(first, first + self.count), 2, seed=self.seed, purpose="order")
        samples = np.argsort(keys[:, 0], kind="stable")
        starts = np.arange(0, self.count, self.rows, dtype=np.int64)
        if isinstance(self.inputs, Recordings):
            pool = np.arange(self.count) // (_POOL * self.rows)
            samples = samples[np.lexsort((self.inputs.lengths[samples], pool))]
            starts = starts[np.argsort(keys[: len(starts), 1], kind="stable")]
        return Order(samples + first, starts, np.minimum(starts + self.rows, self.count))

    def which(self, numbers: Sequence[int]) -> list[int]:
        """Which samples these numbers mean."""
        return [number % self.count for number in numbers]

    def read(self, numbers: Sequence[int]) -> Any:
        """Their inputs as a batch, jittered."""
        found = self.inputs.at(self.which(numbers))
        if isinstance(found, Tensor):
            return Images(jitter_images(found, numbers, jitter=self.jitter or Jitter(), seed=self.seed))
        jitter = self.jitter or SoundJitter()
        sounds = zip(found, numbers, strict=True)
        return together(
            [jitter_sound(each, number, jitter=jitter, seed=self.seed) for each, number in sounds]
        )


class MediaLabelFeed(_MediaFeed[Sequence[int]]):
    """Pictures or sounds, and the class of each."""

    def batch(self, samples: Sequence[int]) -> Labelled[Any]:
        """These inputs and their classes."""
        labels = [self.answers[number] for number in self.which(samples)]
        return Labelled(self.read(samples), torch.tensor(labels, dtype=torch.long))


class MediaTextFeed(_MediaFeed[Corpus]):
    """Pictures or sounds, and the text that goes with each, ended by END."""

    def batch(self, samples: Sequence[int]) -> Pairs[Any]:
        """These inputs and their texts."""
        return Pairs(self.read(samples), self.answers.sequences(self.which(samples), after=END))


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError as error:
        raise RegardError(f"{path}: cannot be read ({error.strerror or error})") from None
