"""Mixup: a model that has met halves of two inputs is less sure of either (Zhang 2018; of sounds, Tokozume 2018)."""

from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.data.batches import Batch, Labelled
from regard.errors import RegardError
from regard.models.labelling import Labelling
from regard.models.layout import labelled, readable_labels
from regard.models.objective import cross_entropy
from regard.models.protocols import Loss


class Blends(Batch, Protocol):
    """Inputs that can be laid over each other: pictures, sounds."""

    def blended(self, share: Float[Tensor, " b"], partner: Int[Tensor, " b"]) -> Any:
        """λ of each and 1 − λ of its partner."""


Blending = TypeVar("Blending", bound=Blends)


@dataclass(frozen=True, eq=False)
class Mixed(Generic[Blending]):
    """Inputs laid over each other: λ of one's own, 1 − λ of another of the batch."""

    inputs: Blending
    own: Int[Tensor, " b"]
    other: Int[Tensor, " b"]
    share: Float[Tensor, " b"]  # λ, at least a half

    def loss(self, scores: Float[Tensor, "b classes"], *, smoothing: float = 0.0) -> Loss:
        """λ CE(own label) + (1 − λ) CE(the other's), each input counted once. Correct is who finds the larger."""
        own = cross_entropy(scores, self.own, smoothing=smoothing, shares=self.share)
        other = cross_entropy(scores, self.other, smoothing=smoothing, shares=1 - self.share)
        metrics = {"nll": own.metrics["nll"] + other.metrics["nll"], "correct": own.metrics["correct"]}
        return Loss(own.total + other.total, own.count, metrics)


def mixed(batch: Labelled[Blending], alpha: float) -> Mixed[Blending]:
    """λ ~ Beta(α, α) for every input, from torch's own random numbers; the larger part is one's own."""
    if not alpha > 0:
        raise RegardError(f"mixup={alpha}: shares are drawn from Beta(α, α), so α is above 0")
    concentration = torch.full((len(batch),), alpha, device=batch.labels.device)
    share = torch.distributions.Beta(concentration, concentration).sample()
    share = torch.maximum(share, 1 - share)
    partner = torch.randperm(len(batch), device=batch.labels.device)
    return Mixed(batch.inputs.blended(share, partner), batch.labels, batch.labels[partner], share)


def check_classes(classes: int, mixup: float) -> None:
    """Refuse the settings of a classifier that cannot be."""
    if classes < 1 or mixup < 0:
        raise RegardError(f"classes={classes}, mixup={mixup}: at least 1 class, and a mixup of at least 0")


class MixedLabelling(Labelling[Blending]):
    """p(class | input), learned from mixed inputs if there is mixup."""

    def __init__(self, *, mixup: float = 0.0, smoothing: float = 0.0) -> None:
        super().__init__(smoothing=smoothing)
        if mixup < 0:
            raise RegardError(f"mixup={mixup}: α of Beta(α, α), or 0 for none")
        self.mixup = mixup

    def loss(self, batch: Labelled[Blending]) -> Loss:
        """The cross-entropy of the labels; with mixup, in training, that of the labels of mixed inputs."""
        if not self.training or self.mixup == 0.0:
            return super().loss(batch)
        mix = mixed(labelled(batch), self.mixup)
        scores = self.scores(mix.inputs)
        readable_labels(batch, scores.shape[-1])
        return mix.loss(scores, smoothing=self.smoothing)
