"""Attention models you can see.

The public names, and the rooms they are in (`regard.layers`, `regard.models` …), are loaded when first used, so that
importing `regard` (and asking it for help) costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard import attention as attention
    from regard import data as data
    from regard import decoding as decoding
    from regard import figures as figures
    from regard import interop as interop
    from regard import layers as layers
    from regard import models as models
    from regard import runs as runs
    from regard import sight as sight
    from regard import training as training
    from regard.attention.attend import attend as attend
    from regard.attention.biases import ALiBi as ALiBi
    from regard.attention.biases import Bias as Bias
    from regard.attention.biases import RelativeBuckets as RelativeBuckets
    from regard.attention.biases import TensorBias as TensorBias
    from regard.attention.call import Call as Call
    from regard.attention.explain import explain as explain
    from regard.attention.kv_cache import KeyValue as KeyValue
    from regard.attention.masks import Mask as Mask
    from regard.attention.masks import causal as causal
    from regard.attention.masks import documents as documents
    from regard.attention.masks import keep as keep
    from regard.attention.masks import lengths as lengths
    from regard.attention.masks import prefix as prefix
    from regard.attention.masks import window as window
    from regard.attention.multihead import HeadSizes as HeadSizes
    from regard.attention.multihead import MultiHeadAttention as MultiHeadAttention
    from regard.attention.packed_mask import packed as packed
    from regard.attention.scores import Additive as Additive
    from regard.attention.scores import Bilinear as Bilinear
    from regard.attention.scores import Cosine as Cosine
    from regard.attention.scores import Dot as Dot
    from regard.attention.scores import LowRank as LowRank
    from regard.attention.scores import ScaledDot as ScaledDot
    from regard.attention.scores import Score as Score
    from regard.attention.weights import lookup as lookup
    from regard.attention.weights import weigh as weigh
    from regard.data.batches import END as END
    from regard.data.batches import START as START
    from regard.data.batches import Images as Images
    from regard.data.batches import Labelled as Labelled
    from regard.data.batches import Packed as Packed
    from regard.data.batches import Pairs as Pairs
    from regard.data.batches import Sequences as Sequences
    from regard.data.batches import Sounds as Sounds
    from regard.data.tokenizer import Tokenizer as Tokenizer
    from regard.decoding.beam import beam as beam
    from regard.decoding.decode import greedy as greedy
    from regard.decoding.forced import log_probabilities as log_probabilities
    from regard.decoding.hypothesis import Hypothesis as Hypothesis
    from regard.decoding.hypothesis import beams as beams
    from regard.decoding.sampling import sample as sample
    from regard.decoding.sampling import stream as stream
    from regard.errors import RegardError as RegardError
    from regard.errors import RegardWarning as RegardWarning
    from regard.models.captioner import Captioner as Captioner
    from regard.models.captioner import CaptionerConfig as CaptionerConfig
    from regard.models.captioner import RecurrentCaptioner as RecurrentCaptioner
    from regard.models.captioner import RecurrentCaptionerConfig as RecurrentCaptionerConfig
    from regard.models.classifier import Classifier as Classifier
    from regard.models.classifier import ClassifierConfig as ClassifierConfig
    from regard.models.convolutional import Convolution as Convolution
    from regard.models.convolutional import ConvolutionConfig as ConvolutionConfig
    from regard.models.counter import Counter as Counter
    from regard.models.counter import CounterConfig as CounterConfig
    from regard.models.decoder_cache import KeyValueCache as KeyValueCache
    from regard.models.fusion import Fusion as Fusion
    from regard.models.fusion import FusionConfig as FusionConfig
    from regard.models.hearing import Hearing as Hearing
    from regard.models.hearing import HearingConfig as HearingConfig
    from regard.models.kind import Kind as Kind
    from regard.models.language import LanguageConfig as LanguageConfig
    from regard.models.language import LanguageModel as LanguageModel
    from regard.models.optimise import optimise as optimise
    from regard.models.recurrent import RecurrentConfig as RecurrentConfig
    from regard.models.recurrent import RecurrentTranslator as RecurrentTranslator
    from regard.models.transcriber import Transcriber as Transcriber
    from regard.models.transcriber import TranscriberConfig as TranscriberConfig
    from regard.models.transformer import Transformer as Transformer
    from regard.models.transformer import TransformerConfig as TransformerConfig
    from regard.models.vision import Vision as Vision
    from regard.models.vision import VisionConfig as VisionConfig
    from regard.runs.answering import Answer as Answer
    from regard.runs.answering import Loaded as Loaded
    from regard.runs.load import load as load
    from regard.sight.interventions import drop_heads as drop_heads
    from regard.sight.interventions import forbid as forbid
    from regard.sight.interventions import intervene as intervene
    from regard.sight.interventions import scale_head as scale_head
    from regard.sight.interventions import uniform as uniform
    from regard.sight.layer import Layer as Layer
    from regard.sight.monitor import AttentionLog as AttentionLog
    from regard.sight.monitor import Monitor as Monitor
    from regard.sight.pictures.alignment_map import alignment_map as alignment_map
    from regard.sight.pictures.atlas import atlas as atlas
    from regard.sight.pictures.atlas import overview as overview
    from regard.sight.pictures.chart import Chart as Chart
    from regard.sight.pictures.chart import Series as Series
    from regard.sight.pictures.counter_picture import counting as counting
    from regard.sight.pictures.curves import curves_of as curves_of
    from regard.sight.pictures.drawable import spectrogram as spectrogram
    from regard.sight.pictures.figure import plot as plot
    from regard.sight.pictures.heatmap import Heatmap as Heatmap
    from regard.sight.pictures.heatmap import heatmap as heatmap
    from regard.sight.pictures.heatmap import sheet as sheet
    from regard.sight.pictures.overlay import overlay as overlay
    from regard.sight.pictures.word_lines import lines as lines
    from regard.sight.seen import Seen as Seen
    from regard.sight.translation_picture import picture_of as picture_of
    from regard.sight.watch import watch as watch
    from regard.training.from_files import train as train

__version__ = "0.1.0"

_HOMES = {
    "attention.attend": ["attend"],
    "attention.biases": ["ALiBi", "Bias", "RelativeBuckets", "TensorBias"],
    "attention.call": ["Call"],
    "attention.explain": ["explain"],
    "attention.kv_cache": ["KeyValue"],
    "attention.masks": ["Mask", "causal", "documents", "keep", "lengths", "prefix", "window"],
    "attention.multihead": ["HeadSizes", "MultiHeadAttention"],
    "attention.packed_mask": ["packed"],
    "attention.scores": ["Additive", "Bilinear", "Cosine", "Dot", "LowRank", "ScaledDot", "Score"],
    "attention.weights": ["lookup", "weigh"],
    "data.batches": ["END", "START", "Images", "Labelled", "Packed", "Pairs", "Sequences", "Sounds"],
    "data.tokenizer": ["Tokenizer"],
    "decoding.beam": ["beam"],
    "decoding.forced": ["log_probabilities"],
    "decoding.decode": ["greedy"],
    "decoding.hypothesis": ["Hypothesis", "beams"],
    "decoding.sampling": ["sample", "stream"],
    "errors": ["RegardError", "RegardWarning"],
    "models.captioner": ["Captioner", "CaptionerConfig", "RecurrentCaptioner", "RecurrentCaptionerConfig"],
    "models.classifier": ["Classifier", "ClassifierConfig"],
    "models.convolutional": ["Convolution", "ConvolutionConfig"],
    "models.counter": ["Counter", "CounterConfig"],
    "models.fusion": ["Fusion", "FusionConfig"],
    "models.hearing": ["Hearing", "HearingConfig"],
    "models.decoder_cache": ["KeyValueCache"],
    "models.kind": ["Kind"],
    "models.language": ["LanguageConfig", "LanguageModel"],
    "models.optimise": ["optimise"],
    "models.recurrent": ["RecurrentConfig", "RecurrentTranslator"],
    "models.transcriber": ["Transcriber", "TranscriberConfig"],
    "models.transformer": ["Transformer", "TransformerConfig"],
    "models.vision": ["Vision", "VisionConfig"],
    "runs.answering": ["Answer", "Loaded"],
    "runs.load": ["load"],
    "sight.interventions": ["drop_heads", "forbid", "intervene", "scale_head", "uniform"],
    "sight.layer": ["Layer"],
    "sight.monitor": ["AttentionLog", "Monitor"],
    "sight.pictures.alignment_map": ["alignment_map"],
    "sight.pictures.atlas": ["atlas", "overview"],
    "sight.pictures.chart": ["Chart", "Series"],
    "sight.pictures.counter_picture": ["counting"],
    "sight.pictures.curves": ["curves_of"],
    "sight.pictures.figure": ["plot"],
    "sight.pictures.heatmap": ["Heatmap", "heatmap", "sheet"],
    "sight.pictures.overlay": ["overlay"],
    "sight.pictures.drawable": ["spectrogram"],
    "sight.pictures.word_lines": ["lines"],
    "sight.seen": ["Seen"],
    "sight.translation_picture": ["picture_of"],
    "sight.watch": ["watch"],
    "training.from_files": ["train"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_ROOMS = (
    "attention",
    "data",
    "decoding",
    "figures",
    "interop",
    "layers",
    "models",
    "runs",
    "sight",
    "training",
)
__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> object:
    if name in _ROOMS:
        return import_module(f"regard.{name}")
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'regard' has no attribute {name!r}")
    return getattr(import_module(f"regard.{home}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__, *_ROOMS]
