"""Models from their configs."""

from torch import nn

from regard.models.captioner import (
    Captioner,
    CaptionerConfig,
    RecurrentCaptioner,
    RecurrentCaptionerConfig,
)
from regard.models.classifier import Classifier, ClassifierConfig
from regard.models.convolution import Convolution, ConvolutionConfig
from regard.models.counter import Counter, CounterConfig
from regard.models.fusion import Fusion, FusionConfig
from regard.models.hearing import Hearing, HearingConfig
from regard.models.language import LanguageConfig, LanguageModel
from regard.models.recurrent import RecurrentConfig, RecurrentTranslator
from regard.models.transcriber import Transcriber, TranscriberConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.models.vision import Vision, VisionConfig
from regard.runs.recipe import ModelConfig


def build_model(config: ModelConfig) -> nn.Module:
    """The model that a config describes, with fresh weights."""
    match config:
        case TransformerConfig():
            return Transformer(config)
        case RecurrentConfig():
            return RecurrentTranslator(config)
        case LanguageConfig():
            return LanguageModel(config)
        case ClassifierConfig():
            return Classifier(config)
        case CounterConfig():
            return Counter(config)
        case VisionConfig():
            return Vision(config)
        case ConvolutionConfig():
            return Convolution(config)
        case CaptionerConfig():
            return Captioner(config)
        case RecurrentCaptionerConfig():
            return RecurrentCaptioner(config)
        case HearingConfig():
            return Hearing(config)
        case TranscriberConfig():
            return Transcriber(config)
        case FusionConfig():
            return Fusion(config)
