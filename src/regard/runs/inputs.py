"""Inputs of a loaded model: texts, pictures, recordings, or pairs of them, made into batches."""

import os
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.audio import read_recording, together
from regard.data.batches import END, Batch, Both, Images, Sequences, Sounds
from regard.data.digit_counts import rows_of_digits
from regard.data.given import listed, texts_of
from regard.data.images import Frame, read_image
from regard.data.media_values import as_pixels, as_samples
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError
from regard.models.hearing import SoundConfig

# A file; or [channels, height, width], floats from 0 to 1 or bytes. A file; or samples at the rate of the model, floats
# from −1 to 1 or whole numbers of the full range of their type.
Picture = str | os.PathLike[str] | Tensor | NDArray[Any]
Sound = str | os.PathLike[str] | Tensor | NDArray[Any]


@runtime_checkable
class Reader(Protocol):
    """Turns what a user gives into what a model reads."""

    what: str  # one of them is called, such as "text"

    def batch(self, given: Sequence[Any]) -> Batch:
        """These as a batch."""


class TextReader:
    """Texts, by a tokenizer, each ended by END."""

    what = "text"

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    def batch(self, given: Sequence[str]) -> Sequences:
        """These texts."""
        return Sequences.of([[*ids, END] for ids in self.tokenizer.encode_all(texts_of(given, self.what))])


class DigitReader:
    """Rows of ten digits, as the counter reads them."""

    what = "row"

    def batch(self, given: Sequence[str]) -> Sequences:
        """These rows of digits, such as "1 7 2 0 2 1 3 4 8 6"."""
        return rows_of_digits(texts_of(given, self.what))


class PictureReader:
    """Pictures, brought to the size that a model was trained with."""

    what = "picture"

    def __init__(self, size: tuple[int, int], channels: Any) -> None:  # 1 or 3, as the data had
        self.frame = Frame(height=size[0], width=size[1], channels=channels)

    def batch(self, given: Sequence[Picture]) -> Images:
        """These pictures."""
        return Images(torch.stack([self.read(each) for each in listed(given, self.what)]))

    def read(self, picture: Picture) -> Tensor:
        """One of them, [channels, height, width]."""
        if isinstance(picture, str | os.PathLike):
            return read_image(os.fspath(picture), self.frame)
        pixels = as_pixels(picture)
        wanted = (self.frame.channels, self.frame.height, self.frame.width)
        if tuple(pixels.shape) != wanted:
            raise RegardError(f"a picture of the shape {list(pixels.shape)}: this model takes {list(wanted)}")
        return pixels


class SoundReader:
    """Recordings, at the rate of a model."""

    what = "recording"

    def __init__(self, config: SoundConfig) -> None:
        self.rate = config.rate

    def batch(self, given: Sequence[Sound]) -> Sounds:
        """These recordings."""
        return together([self.read(each) for each in listed(given, self.what)])

    def read(self, sound: Sound) -> Tensor:
        """The samples of one of them."""
        if isinstance(sound, str | os.PathLike):
            return read_recording(os.fspath(sound)).at(self.rate)
        samples = as_samples(sound)
        if samples.ndim != 1 or not len(samples):
            raise RegardError(
                f"a recording of the shape {list(samples.shape)}: give samples in a row, {self.rate} a second"
            )
        return samples


class PairReader:
    """Pairs of two senses."""

    what = "pair"

    def __init__(self, first: Reader, second: Reader) -> None:
        self.first, self.second = first, second

    def batch(self, given: Sequence[Any]) -> Both[Batch, Batch]:
        """These pairs."""
        if not all(isinstance(each, tuple | list) and len(each) == 2 for each in listed(given, self.what)):
            raise RegardError(
                f"pairs are wanted, of a {self.first.what} and a {self.second.what}: [(…, …), …]"
            )
        return Both(
            self.first.batch([each[0] for each in given]), self.second.batch([each[1] for each in given])
        )
