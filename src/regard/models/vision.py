"""The Vision Transformer: a picture is worth 16 × 16 words (Dosovitskiy 2021)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.multihead import glorot
from regard.data.batches import Images
from regard.data.given import configured
from regard.models.kind import Kind
from regard.models.mixup import MixedLabelling, check_classes
from regard.models.seeing import PictureEncoder, PictureStackConfig
from regard.models.stack import questions, sizes


@dataclass(frozen=True, kw_only=True)
class VisionConfig(PictureStackConfig):
    """The settings of a Vision Transformer."""

    KIND: ClassVar[str] = "vision"
    classes: int = 10
    pooling: Literal["class-token", "attention", "mean"] = "class-token"  # how a picture becomes one vector
    positions: Literal["sinusoidal", "learned", "rotary", "alibi", "relative", "gaussian", "none"] = "learned"
    feedforward: Literal["relu", "gelu", "swiglu"] = "gelu"
    mixup: float = 0.0  # α of Beta(α, α), from which shares of two pictures are drawn in training; 0: none
    smoothing: float = 0.0  # of the labels

    def __post_init__(self) -> None:
        super().__post_init__()
        check_classes(self.classes, self.mixup)


def pico() -> VisionConfig:
    """4 blocks of width 64 over 8 × 8 pictures of one channel, 0.1 M parameters: seconds an epoch on a laptop."""
    return VisionConfig(
        channels=1, image_size=(8, 8), patch=(2, 2), width=64, heads=4, depth=4, hidden_width=128, dropout=0.0
    )


def tiny() -> VisionConfig:
    """12 blocks of width 192, 5.7 M parameters (Touvron 2021, table 1: DeiT-Ti)."""
    return VisionConfig(width=192, heads=3, depth=12, hidden_width=768)


def small() -> VisionConfig:
    """12 blocks of width 384, 22 M parameters (Touvron 2021, table 1: DeiT-S)."""
    return VisionConfig(width=384, heads=6, depth=12, hidden_width=1536)


def base() -> VisionConfig:
    """12 blocks of width 768, 86 M parameters (Dosovitskiy 2021, table 1: ViT-Base)."""
    return VisionConfig(width=768, heads=12, depth=12, hidden_width=3072)


class Vision(MixedLabelling[Images]):
    """p(class | picture)."""

    def __init__(self, config: VisionConfig) -> None:
        configured(config, VisionConfig)
        super().__init__(mixup=config.mixup, smoothing=config.smoothing)
        self.config = config
        self.encoder = PictureEncoder(config, class_token=config.pooling == "class-token")
        self.pooling = questions(config, config.pooling)
        self.dropout = nn.Dropout(config.dropout)
        self.output = glorot(nn.Linear(config.width, config.classes))

    def scores(self, inputs: Images) -> Float[Tensor, "b classes"]:
        """How well each class fits, before softmax."""
        how: Literal["attention", "mean", "first"] = (
            "first" if self.config.pooling == "class-token" else self.config.pooling
        )
        return self.output(self.dropout(self.encoder(inputs).pooled(how, self.pooling)))


KIND = Kind(
    config=VisionConfig,
    model=Vision,
    reads=("picture",),
    gives="class",
    task="classification",
    verbs=("classify",),
    view="media-class",
    hub="image-classification",
    sizes=sizes((64, 4), (96, 4), (128, 6), (192, 8), (256, 10), (384, 12)),
    presets={"pico": pico, "tiny": tiny, "small": small, "base": base},
)
