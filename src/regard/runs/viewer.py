"""A trained classifier of pictures."""

import os
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.data.batches import Images
from regard.data.images import Frame, read_image
from regard.errors import RegardError
from regard.models.convolution import Convolution
from regard.models.vision import Vision

Picture = str | os.PathLike[str] | Tensor  # a file, or [channels, height, width] from 0 to 1
ROWS = 128  # pictures looked at together


class Viewer:
    """A model with the names of its classes."""

    def __init__(self, model: Vision | Convolution, labels: list[str]) -> None:
        self.model, self.labels = model, labels
        height, width = model.config.image_size
        channels: Any = model.config.channels  # 1 or 3, as its data had
        self.frame = Frame(height=height, width=width, channels=channels)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def classify(self, pictures: Sequence[Picture]) -> list[str]:
        """The likeliest class of each picture."""
        return [max(each, key=each.__getitem__) for each in self.probabilities(pictures)]

    def probabilities(self, pictures: Sequence[Picture]) -> list[dict[str, float]]:
        """How likely each class is, by its name."""
        if isinstance(pictures, str | os.PathLike):
            raise RegardError(
                f"a list of pictures is wanted, not one: put it in brackets, [{str(pictures)!r}]"
            )
        found = []
        for start in range(0, len(pictures), ROWS):
            images = self.images(pictures[start : start + ROWS])
            with torch.no_grad():
                likely = self.model.predict(images).exp()
            found += [dict(zip(self.labels, each, strict=True)) for each in likely.tolist()]
        return found

    def images(self, pictures: Sequence[Picture]) -> Images:
        """Pictures as a batch, at the size that the model was trained with, on its device."""
        return Images(torch.stack([self._read(each) for each in pictures])).to(self.device)

    def _read(self, picture: Picture) -> Float[Tensor, "channels height width"]:
        if not isinstance(picture, Tensor):
            return read_image(os.fspath(picture), self.frame)
        wanted = (self.frame.channels, self.frame.height, self.frame.width)
        if tuple(picture.shape) != wanted:
            raise RegardError(
                f"a picture of the shape {list(picture.shape)}: this model takes {list(wanted)}"
            )
        return picture.float()
