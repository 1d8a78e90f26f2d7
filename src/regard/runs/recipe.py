"""A recipe: data, model, training and decoding of one experiment."""

from collections.abc import Callable
from dataclasses import dataclass, field

from regard.models.classifier import ClassifierConfig
from regard.models.counter import CounterConfig
from regard.models.language import LanguageConfig
from regard.models.recurrent import RecurrentConfig
from regard.models.transformer import TransformerConfig, base, big, tiny
from regard.runs.settings import (
    CountingData,
    Decoding,
    Init,
    LabelledData,
    NumberData,
    PairData,
    TextData,
    Tokens,
    Training,
)

ModelConfig = TransformerConfig | RecurrentConfig | LanguageConfig | ClassifierConfig | CounterConfig
PRESETS: dict[str, dict[str, Callable[[], ModelConfig]]] = {
    "transformer": {"tiny": tiny, "base": base, "big": big}
}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One experiment."""

    about: str = ""
    data: NumberData | CountingData | PairData | TextData | LabelledData
    model: ModelConfig
    tokens: Tokens = field(default_factory=Tokens)
    training: Training = field(default_factory=Training)
    decoding: Decoding = field(default_factory=Decoding)
    init: Init | None = None
    seed: int = 1
