"""Models: each file holds a frozen config, the model it describes, and its `Kind`."""

from regard.models.captioner import Captioner, CaptionerConfig, RecurrentCaptioner, RecurrentCaptionerConfig
from regard.models.classifier import Classifier, ClassifierConfig
from regard.models.convolutional import Convolution, ConvolutionConfig
from regard.models.counter import Counter, CounterConfig
from regard.models.decoder_cache import KeyValueCache
from regard.models.fusion import Fusion, FusionConfig
from regard.models.hearing import Hearing, HearingConfig
from regard.models.kind import Kind
from regard.models.kinds import KINDS
from regard.models.labelling import Labelling
from regard.models.language import LanguageConfig, LanguageModel
from regard.models.objective import cross_entropy
from regard.models.protocols import Answers, Generates, Loss, State, Trains
from regard.models.recurrent import RecurrentConfig, RecurrentTranslator
from regard.models.transcriber import Transcriber, TranscriberConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.models.vision import Vision, VisionConfig

__all__ = [
    "KINDS",
    "Answers",
    "Captioner",
    "CaptionerConfig",
    "Classifier",
    "ClassifierConfig",
    "Convolution",
    "ConvolutionConfig",
    "Counter",
    "CounterConfig",
    "Fusion",
    "FusionConfig",
    "Generates",
    "Hearing",
    "HearingConfig",
    "KeyValueCache",
    "Kind",
    "Labelling",
    "LanguageConfig",
    "LanguageModel",
    "Loss",
    "RecurrentCaptioner",
    "RecurrentCaptionerConfig",
    "RecurrentConfig",
    "RecurrentTranslator",
    "State",
    "Trains",
    "Transcriber",
    "TranscriberConfig",
    "Transformer",
    "TransformerConfig",
    "Vision",
    "VisionConfig",
    "cross_entropy",
]
