"""A trained classifier: it names the class of a text, a picture, a recording, or of two senses together."""

from collections.abc import Sequence
from typing import Any

import torch

from regard.models.labelling import Labelling
from regard.runs.inputs import Reader, several

ROWS = 128  # looked at together


class Sorter:
    """A model with the names of its classes."""

    def __init__(self, model: Labelling[Any], reader: Reader, labels: list[str]) -> None:
        self.model, self.reader, self.labels = model, reader, labels

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def classify(self, inputs: Sequence[Any]) -> list[str]:
        """The likeliest class of each."""
        return [max(each, key=each.__getitem__) for each in self.probabilities(inputs)]

    def probabilities(self, inputs: Sequence[Any]) -> list[dict[str, float]]:
        """How likely each class is, by its name."""
        found = []
        for start in range(0, len(several(inputs, self.reader.what)), ROWS):
            batch = self.reader.batch(inputs[start : start + ROWS]).to(self.device)
            with torch.no_grad():
                likely = self.model.predict(batch).exp()
            found += [dict(zip(self.labels, each, strict=True)) for each in likely.tolist()]
        return found
