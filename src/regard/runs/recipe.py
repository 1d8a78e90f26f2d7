"""A recipe: data, model, training and decoding of one experiment."""

from collections.abc import Callable
from dataclasses import dataclass, field

from regard.errors import RegardError
from regard.models import captioner, convolution, fusion, hearing, transcriber, transformer, vision
from regard.models.captioner import CaptionerConfig, RecurrentCaptionerConfig
from regard.models.classifier import ClassifierConfig
from regard.models.convolution import ConvolutionConfig
from regard.models.counter import CounterConfig
from regard.models.fusion import FusionConfig
from regard.models.hearing import HearingConfig
from regard.models.language import LanguageConfig
from regard.models.recurrent import RecurrentConfig
from regard.models.transcriber import TranscriberConfig
from regard.models.transformer import TransformerConfig
from regard.models.vision import VisionConfig
from regard.runs.settings import (
    LARGEST_SEED,
    CountingData,
    Decoding,
    DigitData,
    ImageData,
    Init,
    LabelledData,
    NumberData,
    PairData,
    SameData,
    SoundData,
    SpokenData,
    StripData,
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
    | CaptionerConfig
    | RecurrentCaptionerConfig
    | HearingConfig
    | TranscriberConfig
    | FusionConfig
)
Data = (
    NumberData
    | CountingData
    | PairData
    | TextData
    | LabelledData
    | DigitData
    | ImageData
    | StripData
    | SoundData
    | SpokenData
    | SameData
)
_SIZES: tuple[str, ...] = ("pico", "tiny", "small", "base")
PRESETS: dict[str, dict[str, Callable[[], ModelConfig]]] = {
    "transformer": {"tiny": transformer.tiny, "base": transformer.base, "big": transformer.big},
    "vision": {size: getattr(vision, size) for size in _SIZES},
    "convolution": {size: getattr(convolution, size) for size in _SIZES},
    "captioner": {"pico": captioner.pico},
    "recurrent-captioner": {"show-attend-tell": captioner.show_attend_tell},
    "hearing": {"pico": hearing.pico},
    "transcriber": {"pico": transcriber.pico},
    "fusion": {"pico": fusion.pico},
}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One experiment."""

    about: str = ""
    data: Data
    model: ModelConfig
    tokens: Tokens = field(default_factory=Tokens)
    training: Training = field(default_factory=Training)
    decoding: Decoding = field(default_factory=Decoding)
    init: Init | None = None
    base: str = ""  # where relative paths of data and init start; empty: the folder the command runs in
    seed: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.seed <= LARGEST_SEED:
            raise RegardError(f"seed={self.seed}: from 0 to {LARGEST_SEED}")
