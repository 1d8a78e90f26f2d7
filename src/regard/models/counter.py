"""The counter: the smallest model whose attention means something.

Ten digits; are there more 4s than 2s? One learned query asks the digits, a digit answers with its value, and a
small network reads the mean of the answers. Nobody tells it where to look. But in a mean over all ten digits one
more 4 counts a tenth, and in a mean over the 4s and 2s alone often a half: who looks away from the others can tell
the cases apart with smaller weights, and that is where the loss of the label alone leads.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.call import Call
from regard.attention.multihead import HeadSizes, MultiHeadAttention
from regard.attention.weights import weigh
from regard.data.batches import Labelled, Sequences
from regard.data.digit_counts import CLASSES, VOCABULARY
from regard.data.given import check_choices, configured
from regard.errors import RegardError
from regard.layers.embedding import Embedding
from regard.layers.pooling import AttentionPooling
from regard.models.kind import Kind
from regard.models.layout import labelled, readable, readable_labels
from regard.models.objective import cross_entropy
from regard.models.protocols import Loss


@dataclass(frozen=True, kw_only=True)
class CounterConfig:
    """The settings of the counter."""

    RENAMED: ClassVar[dict[str, str]] = {"inner": "hidden_width"}

    KIND: ClassVar[str] = "counter"
    vocabulary: int = VOCABULARY
    width: int = 16
    value_width: int = 2  # numbers a digit sends; with one, it may learn to look at 2s alone and stay there
    hidden_width: int = 32  # units of the network that reads the mean
    classes: int = CLASSES

    def __post_init__(self) -> None:
        check_choices(self)
        for name in ("vocabulary", "width", "value_width", "hidden_width", "classes"):
            if getattr(self, name) < 1:
                raise RegardError(f"{name}={getattr(self, name)}: at least 1")


class Counter(nn.Module):
    """p(more 4s than 2s | digits). No digit is padding: all sequences of a batch have one length."""

    def __init__(self, config: CounterConfig) -> None:
        super().__init__()
        self.config = configured(config, CounterConfig)
        value = config.value_width
        sizes = HeadSizes(key_width=config.width, value_width=value, output=value)
        self.embedding = Embedding(config.vocabulary, config.width)
        self.pooling = AttentionPooling(MultiHeadAttention(config.width, 1, sizes=sizes))
        self.reader = nn.Sequential(
            nn.Linear(value, config.hidden_width), nn.ReLU(), nn.Linear(config.hidden_width, config.classes)
        )

    def predict(self, batch: Sequences) -> Float[Tensor, "b classes"]:
        """The log-probability of no and of yes."""
        return torch.log_softmax(self._scores(batch), -1)

    def loss(self, batch: Labelled) -> Loss:
        """The cross-entropy of the labels, and nothing else."""
        scores = self._scores(labelled(batch).inputs)
        return cross_entropy(scores, readable_labels(batch, scores.shape[-1]))

    def call(self, batch: Sequences) -> Call:
        """The one question that is asked: its query, and the keys of the digits."""
        keys = self._embedded(batch)
        queries = self.pooling.queries.expand(len(batch), -1, -1)
        return self.pooling.attention.call(queries, keys)

    def weights(self, batch: Sequences) -> Float[Tensor, "b n"]:
        """How much it looks at each digit."""
        return weigh(self.call(batch))[:, 0, 0]

    def values(self, batch: Sequences) -> Float[Tensor, "b n value"]:
        """What each digit sends."""
        return self.pooling.attention.input.values(self._embedded(batch))

    def _scores(self, batch: Sequences) -> Float[Tensor, "b classes"]:
        return self.reader(self.pooling(self._embedded(batch))[:, 0])

    def _embedded(self, batch: Sequences) -> Float[Tensor, "b n width"]:
        return self.embedding(readable(batch, self.embedding))


KIND = Kind(
    config=CounterConfig,
    model=Counter,
    reads=("digits",),
    gives="class",
    task="counting",
    verbs=("classify",),
    view="text-class",
    pictures={"counting": "counting"},
)
