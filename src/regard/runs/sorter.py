"""A trained classifier: it names the class of a text."""

from collections.abc import Sequence

import torch

from regard.data.batches import END, Sequences
from regard.data.tokenizer import Tokenizer
from regard.models.classifier import Classifier
from regard.runs.texts import several

ROWS = 128  # texts read together


class Sorter:
    """A model with its tokenizer and the names of its classes."""

    def __init__(self, model: Classifier, tokenizers: dict[str, Tokenizer], labels: list[str]) -> None:
        self.model = model
        self.tokenizer = tokenizers["source"]
        self.labels = labels

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def classify(self, texts: Sequence[str]) -> list[str]:
        """The likeliest class of each text."""
        return [max(each, key=each.__getitem__) for each in self.probabilities(texts)]

    def probabilities(self, texts: Sequence[str]) -> list[dict[str, float]]:
        """How likely each class is, by its name."""
        found = []
        rows = [[*ids, END] for ids in self.tokenizer.encode_all(several(texts))]
        for start in range(0, len(rows), ROWS):
            batch = Sequences.of(rows[start : start + ROWS]).to(self.device)
            with torch.no_grad():
                likely = self.model.predict(batch).exp()
            found += [dict(zip(self.labels, each, strict=True)) for each in likely.tolist()]
        return found
