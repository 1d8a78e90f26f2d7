"""The sequence classifier: an encoder, and one answer for the whole sequence."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.multihead import glorot
from regard.data.batches import Texts
from regard.data.given import configured
from regard.errors import RegardError
from regard.models.kind import Kind
from regard.models.labelling import Labelling
from regard.models.layout import Layout, readable, through
from regard.models.stack import StackConfig, embedding, encoder_blocks, last_norm, questions, sizes


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


class Classifier(Labelling[Texts]):
    """p(class | sequence)."""

    def __init__(self, config: ClassifierConfig) -> None:
        configured(config, ClassifierConfig)
        super().__init__(smoothing=config.smoothing)
        self.config = config
        self.embedding = embedding(config, "vocabulary", config.vocabulary)
        self.encoder = encoder_blocks(config)
        self.norm = last_norm(config)
        self.pooling = questions(config, config.pooling)
        self.dropout = nn.Dropout(config.dropout)
        self.output = glorot(nn.Linear(config.width, config.classes))

    def scores(self, inputs: Texts) -> Float[Tensor, "b classes"]:
        """How well each class fits, before softmax."""
        tokens, layout = readable(inputs, self.embedding), Layout.of(inputs)
        x = layout.sanitised(self.embedding(tokens, offset=layout.offset))
        x = through(self.encoder, x, layout.own())
        pooled = layout.encoded(self.norm(x)).pooled(self.config.pooling, self.pooling)
        return self.output(self.dropout(pooled))


KIND = Kind(
    config=ClassifierConfig,
    model=Classifier,
    reads=("text",),
    gives="class",
    task="classification",
    verbs=("classify",),
    view="text-class",
    hub="text-classification",
    sizes=sizes((64, 1), (128, 2), (192, 3), (256, 4), (384, 6)),
    packs=True,
)
