"""The sequence classifier: an encoder, and one answer for the whole sequence."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.masks import lengths
from regard.attention.multihead import MultiHeadAttention
from regard.attention.projection import glorot
from regard.data.batches import Labelled, Sequences
from regard.errors import RegardError
from regard.layers.pooling import AttentionPooling
from regard.models.objective import cross_entropy
from regard.models.protocols import Loss
from regard.models.stack import StackConfig, embedding, encoder_block, last_norm


@dataclass(frozen=True, kw_only=True)
class ClassifierConfig(StackConfig):
    """The settings of a sequence classifier."""

    KIND: ClassVar[str] = "classifier"
    vocabulary: int = 0  # 0: from the tokenizer
    classes: int = 2
    pooling: Literal["attention", "mean", "first"] = "attention"  # how a sequence becomes one vector
    smoothing: float = 0.0  # of the labels

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.classes < 1:
            raise RegardError(f"classes={self.classes}: at least 1")


class Classifier(nn.Module):
    """p(class | sequence)."""

    def __init__(self, config: ClassifierConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = embedding(config, "vocabulary", config.vocabulary)
        self.encoder = nn.ModuleList(encoder_block(config) for _ in range(config.depth))
        self.norm = last_norm(config)
        if config.pooling == "attention":
            self.pooling = AttentionPooling(MultiHeadAttention(config.width, config.heads))
        self.dropout = nn.Dropout(config.dropout)
        self.output = glorot(nn.Linear(config.width, config.classes))

    def predict(self, batch: Sequences) -> Float[Tensor, "b classes"]:
        """The log-probability of every class."""
        return torch.log_softmax(self._scores(batch), -1)

    def loss(self, batch: Labelled) -> Loss:
        """The cross-entropy of the labels."""
        return cross_entropy(self._scores(batch.inputs), batch.labels, smoothing=self.config.smoothing)

    def _scores(self, batch: Sequences) -> Float[Tensor, "b classes"]:
        x = self.embedding(batch.tokens)
        for block in self.encoder:
            x = block(x, mask=lengths(batch.lengths))
        return self.output(self.dropout(self._pooled(self.norm(x), batch)))

    def _pooled(self, x: Float[Tensor, "b n d"], batch: Sequences) -> Float[Tensor, "b d"]:
        if self.config.pooling == "attention":
            return self.pooling(x, mask=lengths(keys=batch.lengths))[:, 0]
        if self.config.pooling == "first":
            return x[:, 0]
        # Chosen, not multiplied by zero: padding may hold anything.
        return torch.where(batch.real[..., None], x, 0.0).sum(1) / batch.lengths[:, None].clamp_min(1)
