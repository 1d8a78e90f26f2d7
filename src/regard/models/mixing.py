"""Mixup: a model that has seen halves of two pictures is less sure of either (Zhang 2018)."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.data.batches import Images, Labelled
from regard.errors import RegardError
from regard.models.labelling import Labelling
from regard.models.objective import cross_entropy
from regard.models.protocols import Loss


@dataclass(frozen=True, eq=False)
class Mixed:
    """Pictures laid over each other: λ of one's own, 1 − λ of another of the batch."""

    images: Images
    own: Int[Tensor, " b"]
    other: Int[Tensor, " b"]
    share: Float[Tensor, " b"]  # λ, at least a half

    def loss(self, scores: Float[Tensor, "b classes"], *, smoothing: float = 0.0) -> Loss:
        """λ CE(own label) + (1 − λ) CE(the other's), each picture counted once. Correct is who finds the larger."""
        own = cross_entropy(scores, self.own, smoothing=smoothing, shares=self.share)
        other = cross_entropy(scores, self.other, smoothing=smoothing, shares=1 - self.share)
        metrics = {"nll": own.metrics["nll"] + other.metrics["nll"], "correct": own.metrics["correct"]}
        return Loss(own.total + other.total, own.count, metrics)


def mixed(batch: Labelled[Images], alpha: float) -> Mixed:
    """λ ~ Beta(α, α) for every picture, from torch's own random numbers; the larger part is one's own."""
    if not alpha > 0:
        raise RegardError(f"mixup={alpha}: shares are drawn from Beta(α, α), so α is above 0")
    pixels = batch.inputs.pixels
    concentration = torch.full((len(batch),), alpha, device=pixels.device)
    share = torch.distributions.Beta(concentration, concentration).sample()
    share = torch.maximum(share, 1 - share)
    partner = torch.randperm(len(batch), device=pixels.device)
    weight = share.to(pixels.dtype)[:, None, None, None]
    images = Images(weight * pixels + (1 - weight) * pixels[partner])
    return Mixed(images, batch.labels, batch.labels[partner], share)


class PictureLabelling(Labelling[Images]):
    """p(class | picture), learned from mixed pictures if there is mixup."""

    def __init__(self, *, mixup: float = 0.0, smoothing: float = 0.0) -> None:
        super().__init__(smoothing=smoothing)
        if mixup < 0:
            raise RegardError(f"mixup={mixup}: α of Beta(α, α), or 0 for none")
        self.mixup = mixup

    def loss(self, batch: Labelled[Images]) -> Loss:
        """The cross-entropy of the labels; with mixup, in training, that of the labels of mixed pictures."""
        if not self.training or self.mixup == 0.0:
            return super().loss(batch)
        mix = mixed(batch, self.mixup)
        return mix.loss(self.scores(mix.images), smoothing=self.smoothing)
