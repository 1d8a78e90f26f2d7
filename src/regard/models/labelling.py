"""What labels: one class for whatever it is given, as scores that a subclass makes."""

from abc import ABC, abstractmethod
from typing import Generic

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.data.batches import Labelled, Source
from regard.models.layout import labelled, readable_labels
from regard.models.objective import cross_entropy
from regard.models.protocols import Loss


class Labelling(nn.Module, ABC, Generic[Source]):
    """p(class | input)."""

    def __init__(self, *, smoothing: float = 0.0) -> None:
        super().__init__()
        self.smoothing = smoothing  # of the labels

    @abstractmethod
    def scores(self, inputs: Source) -> Float[Tensor, "b classes"]:
        """How well each class fits, before softmax."""

    def predict(self, batch: Source) -> Float[Tensor, "b classes"]:
        """The log-probability of every class."""
        return torch.log_softmax(self.scores(batch), -1)

    def loss(self, batch: Labelled[Source]) -> Loss:
        """The cross-entropy of the labels."""
        scores = self.scores(labelled(batch).inputs)
        return cross_entropy(scores, readable_labels(batch, scores.shape[-1]), smoothing=self.smoothing)
