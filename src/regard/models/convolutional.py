"""The convolutional network a Vision Transformer is measured against: same sizes, same protocol, no attention."""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.multihead import glorot
from regard.data.batches import Images
from regard.data.given import check_choices, configured
from regard.errors import RegardError
from regard.layers.convolution import ConvolutionalFeatures
from regard.layers.patches import read_dtype
from regard.models.kind import Kind
from regard.models.layout import pictures
from regard.models.mixup import MixedLabelling, check_classes
from regard.models.seeing import centred


@dataclass(frozen=True, kw_only=True)
class ConvolutionConfig:
    """The settings of a convolutional network. What a Vision Transformer has too is called the same."""

    KIND: ClassVar[str] = "convolution"
    channels: int = 3
    image_size: tuple[int, int] = (224, 224)  # height and width that are trained with
    widths: tuple[int, ...] = (32, 64, 128)  # of the stages
    strides: tuple[int, ...] = (2, 2, 2)  # of each stage
    units: int = 2  # of each stage
    classes: int = 10
    dropout: float = 0.1  # of the pooled features
    stochastic_depth: float = 0.0  # share of samples that go around the last unit; less for those before it
    mixup: float = 0.0  # α of Beta(α, α), from which shares of two pictures are drawn in training; 0: none
    smoothing: float = 0.0  # of the labels

    def __post_init__(self) -> None:
        check_choices(self)
        check_classes(self.classes, self.mixup)
        for name in ("dropout", "stochastic_depth"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise RegardError(f"{name}={getattr(self, name)}: from 0 to below 1")


def pico() -> ConvolutionConfig:
    """As large as the pico Vision Transformer, for 8 × 8 pictures of one channel."""
    return ConvolutionConfig(
        channels=1, image_size=(8, 8), widths=(32, 56), strides=(1, 2), units=2, dropout=0.0
    )


def tiny() -> ConvolutionConfig:
    """As large as the tiny Vision Transformer, 5.7 M parameters."""
    return ConvolutionConfig(widths=(36, 72, 144, 288), strides=(4, 2, 2, 2), units=3)


def small() -> ConvolutionConfig:
    """As large as the small Vision Transformer, 22 M parameters."""
    return ConvolutionConfig(widths=(72, 144, 288, 576), strides=(4, 2, 2, 2), units=3)


def base() -> ConvolutionConfig:
    """As large as the Vision Transformer's base, 86 M parameters."""
    return ConvolutionConfig(widths=(144, 288, 576, 1152), strides=(4, 2, 2, 2), units=3)


class Convolution(MixedLabelling[Images]):
    """p(class | picture), from the average of the last feature maps over the whole picture (Lin 2014)."""

    def __init__(self, config: ConvolutionConfig) -> None:
        configured(config, ConvolutionConfig)
        super().__init__(mixup=config.mixup, smoothing=config.smoothing)
        self.config = config
        self.features = ConvolutionalFeatures(
            config.channels,
            widths=config.widths,
            strides=config.strides,
            depth=config.units,
            skip=config.stochastic_depth,
        )
        self.dropout = nn.Dropout(config.dropout)
        self.output = glorot(nn.Linear(self.features.width, config.classes))

    def scores(self, inputs: Images) -> Float[Tensor, "b classes"]:
        """How well each class fits, before softmax."""
        features = self.features(centred(pictures(inputs), read_dtype(self.output)))
        return self.output(self.dropout(features.mean((2, 3))))


KIND = Kind(
    config=ConvolutionConfig,
    model=Convolution,
    reads=("picture",),
    gives="class",
    task="classification",
    verbs=("classify",),
    hub="image-classification",
    presets={"pico": pico, "tiny": tiny, "small": small, "base": base},
)
