"""Fusion: one sense asks another, Attention(Q_sound, K_text, V_text) or any other pairing, and a class is the answer.

Each sense has an encoder of its own, at its own rate and with its own padding; what they share is the width of their
vectors, which is all that attention wants of two sequences.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.masks import lengths
from regard.attention.multihead import glorot
from regard.data.batches import Batch, Both, Sequences
from regard.data.given import configured, instance
from regard.errors import RegardError
from regard.models.hearing import SoundEncoder, SoundStackConfig
from regard.models.kind import Input, Kind
from regard.models.labelling import Labelling
from regard.models.layout import Encoded, readable, through
from regard.models.seeing import PictureEncoder, PictureStackConfig
from regard.models.stack import (
    StackConfig,
    decoder_blocks,
    embedding,
    encoder_blocks,
    last_norm,
    questions,
)

Sense = Literal["text", "image", "sound"]


@dataclass(frozen=True, kw_only=True)
class FusionConfig(PictureStackConfig, SoundStackConfig):
    """The settings of a classifier over two senses. Settings of a sense that is not used do nothing."""

    KIND: ClassVar[str] = "fusion"
    first: Sense = "image"
    second: Sense = "sound"
    asks: Literal["first", "second", "both"] = "both"  # whose vectors are the queries
    fusion_depth: int = 2  # blocks in which one asks the other; `depth` are those of each encoder
    vocabulary: int = 0  # of a text; 0: from the tokenizer
    classes: int = 2
    pooling: Literal["attention", "mean"] = "attention"  # how those who asked become one vector
    smoothing: float = 0.0  # of the labels
    standardise: bool = False  # the vectors that ask, over the batch: see `Standardised`

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.classes < 1 or self.fusion_depth < 1:
            raise RegardError(f"classes={self.classes}, fusion_depth={self.fusion_depth}: at least 1 each")

    @property
    def reads(self) -> tuple[Input, ...]:
        """What goes in, first and second, as a `Kind` calls it."""
        names: dict[Sense, Input] = {"text": "text", "image": "picture", "sound": "sound"}
        return names[self.first], names[self.second]


def pico() -> FusionConfig:
    """2 + 2 blocks and 2 of fusion, of width 64, over 8 × 8 pictures and spoken words: minutes on a laptop."""
    return FusionConfig(
        channels=1,
        image_size=(8, 8),
        patch=(2, 2),
        width=64,
        heads=4,
        depth=2,
        hidden_width=128,
    )


class TextEncoder(nn.Module):
    """Tokens of texts that have looked at each other."""

    def __init__(self, config: StackConfig, vocabulary: int) -> None:
        super().__init__()
        self.embedding = embedding(config, "vocabulary", vocabulary)
        self.blocks = encoder_blocks(config)
        self.norm = last_norm(config)

    def forward(self, texts: Sequences) -> Encoded:
        """Every token, having looked at all that are real."""
        tokens = readable(texts, self.embedding)
        x = through(self.blocks, self.embedding(tokens), lengths(texts.lengths))
        return Encoded(self.norm(x), texts.lengths)


class Asking(nn.Module):
    """One sense that asks another, again and again, and is pooled to one vector."""

    def __init__(self, config: FusionConfig) -> None:
        super().__init__()
        # The encoders have put positions in; from here on there are none of their own.
        self.blocks = decoder_blocks(
            replace(config, positions="none", position_width=None), config.fusion_depth
        )
        self.norm = last_norm(config)
        self.pooling = questions(config, config.pooling)
        self.how = config.pooling
        self.standardised = Standardised(config.width) if config.standardise else None

    def forward(self, asking: Encoded, answering: Encoded) -> Float[Tensor, "b d"]:
        """Attention(Q_asking, K_answering, V_answering), each with its own mask."""
        x = (asking if self.standardised is None else self.standardised(asking)).vectors
        mask = lengths(asking.lengths).shared()
        memory_mask = lengths(keys=answering.lengths, queries=asking.lengths).shared()
        for block in self.blocks:
            x = block(x, answering.vectors, mask=mask, memory_mask=memory_mask)
        return Encoded(self.norm(x), asking.lengths).pooled(self.how, self.pooling)


class RunningStatistics(nn.Module):
    """x̂ = (x − μ) / σ for each feature (Ioffe 2015): μ and σ² of a batch in training, later the running means of them.

    So an answer does not depend on its company. Subclasses compute what the mean and the variance of a batch are.
    """

    mean: Float[Tensor, "*sets d"]
    variance: Float[Tensor, "*sets d"]

    def __init__(self, *sizes: int, kept: float = 0.9) -> None:
        super().__init__()
        self.kept = kept  # of μ and σ² at every update
        self.register_buffer("mean", torch.zeros(sizes))
        self.register_buffer("variance", torch.ones(sizes))

    def standardise(
        self, x: Float[Tensor, "*sets n d"], batch: tuple[Tensor, Tensor] | None
    ) -> Float[Tensor, "*sets n d"]:
        """x̂ by the mean and the variance of its batch, which go into the running means; None: by those."""
        mean, variance = (self.mean, self.variance) if batch is None else batch
        if batch is not None:
            with torch.no_grad():
                self.mean.lerp_(mean.to(self.mean.dtype), 1 - self.kept)
                self.variance.lerp_(variance.to(self.variance.dtype), 1 - self.kept)
        return (x - mean[..., None, :]) * (variance[..., None, :] + 1e-5).rsqrt()


class Standardised(RunningStatistics):
    """The vectors that ask, standardised over all real positions of a batch.

    Before anything is learned, the vectors of all sounds have most in common, and a query that is alike for all of them
    asks every text for the same. Without this, a sound that asks a text stays at chance for a long time.
    """

    def forward(self, given: Encoded) -> Encoded:
        """The same positions; padding is 0."""
        real = given.real()[..., None]
        x = torch.where(real, given.vectors, 0.0)
        batch = None
        if self.training:
            count = given.lengths.sum().clamp_min(1).to(x.dtype)
            mean = x.sum((0, 1)) / count
            batch = mean, torch.where(real, x - mean, 0.0).square().sum((0, 1)) / count
        return Encoded(torch.where(real, self.standardise(x, batch), 0.0), given.lengths)


class Alike(RunningStatistics):
    """û ⊙ v̂: whether two vectors are alike is in their product, and hard to find in a sum of maps of each.

    What is alike in all pairs says nothing, and unless both are standardised over the batch, the vectors soon are all alike.
    """

    def __init__(self, width: int) -> None:
        super().__init__(2, width)

    def forward(self, u: Float[Tensor, "b d"], v: Float[Tensor, "b d"]) -> Float[Tensor, "b d"]:
        """How each number of one vector goes with that of the other."""
        both = torch.stack([u, v])
        several = self.training and len(u) > 1  # one row has no deviation
        x = self.standardise(both, (both.mean(1), both.var(1, correction=0)) if several else None)
        return x[0] * x[1]


class Fusion(Labelling[Both[Batch, Batch]]):
    """p(class | two senses)."""

    def __init__(self, config: FusionConfig) -> None:
        configured(config, FusionConfig)
        super().__init__(smoothing=config.smoothing)
        self.config = config
        self.first, self.second = encoder(config, config.first), encoder(config, config.second)
        self.first_asks = Asking(config) if config.asks != "second" else None
        self.second_asks = Asking(config) if config.asks != "first" else None
        self.alike = Alike(config.width) if config.asks == "both" else None
        self.dropout = nn.Dropout(config.dropout)
        self.output = glorot(nn.Linear(config.width * (3 if config.asks == "both" else 1), config.classes))

    def scores(self, inputs: Both[Batch, Batch]) -> Float[Tensor, "b classes"]:
        """How well each class fits, before softmax."""
        instance("inputs", inputs, Both, "give what both senses tell, Both(first, second)")
        first, second = self.first(inputs.first), self.second(inputs.second)
        answers = []
        if self.first_asks is not None:
            answers.append(self.first_asks(first, second))
        if self.second_asks is not None:
            answers.append(self.second_asks(second, first))
        if self.alike is not None:
            answers.append(self.alike(*answers))
        return self.output(self.dropout(torch.cat(answers, dim=-1)))


def encoder(config: FusionConfig, sense: Sense) -> nn.Module:
    """What reads a sense: texts, pictures or recordings."""
    match sense:
        case "text":
            return TextEncoder(config, config.vocabulary)
        case "image":
            return PictureEncoder(config)
        case "sound":
            return SoundEncoder(config)


KIND = Kind(
    config=FusionConfig,
    model=Fusion,
    reads=("picture", "sound"),
    gives="class",
    task="digit-match",
    verbs=("classify",),
    view="pair-class",
    pictures={"spoken-place": "spoken-place"},
    presets={"pico": pico},
)
