"""A recipe: data, model, training and decoding of one experiment."""

from collections.abc import Callable
from dataclasses import dataclass, field

from regard.models import convolution, transformer, vision
from regard.models.classifier import ClassifierConfig
from regard.models.convolution import ConvolutionConfig
from regard.models.counter import CounterConfig
from regard.models.language import LanguageConfig
from regard.models.recurrent import RecurrentConfig
from regard.models.transformer import TransformerConfig
from regard.models.vision import VisionConfig
from regard.runs.settings import (
    CountingData,
    Decoding,
    DigitData,
    ImageData,
    Init,
    LabelledData,
    NumberData,
    PairData,
    TextData,
    Tokens,
    Training,
)

ModelConfig = (
    TransformerConfig
    | RecurrentConfig
    | LanguageConfig
    | ClassifierConfig
    | CounterConfig
    | VisionConfig
    | ConvolutionConfig
)
_SIZES: tuple[str, ...] = ("pico", "tiny", "small", "base")
PRESETS: dict[str, dict[str, Callable[[], ModelConfig]]] = {
    "transformer": {"tiny": transformer.tiny, "base": transformer.base, "big": transformer.big},
    "vision": {size: getattr(vision, size) for size in _SIZES},
    "convolution": {size: getattr(convolution, size) for size in _SIZES},
}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One experiment."""

    about: str = ""
    data: NumberData | CountingData | PairData | TextData | LabelledData | DigitData | ImageData
    model: ModelConfig
    tokens: Tokens = field(default_factory=Tokens)
    training: Training = field(default_factory=Training)
    decoding: Decoding = field(default_factory=Decoding)
    init: Init | None = None
    seed: int = 1
