"""Translators, language models and classifiers with weights drawn at random: whole, but untrained."""

import torch

from regard.data.batches import SPECIAL
from regard.data.tokenizer import Tokenizer
from regard.models.captioner import Captioner, CaptionerConfig
from regard.models.classifier import Classifier, ClassifierConfig
from regard.models.counter import Counter, CounterConfig
from regard.models.fusion import Fusion, FusionConfig
from regard.models.hearing import Hearing, HearingConfig
from regard.models.language import LanguageConfig, LanguageModel
from regard.models.recurrent import RecurrentConfig, RecurrentTranslator
from regard.models.transcriber import Transcriber, TranscriberConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.models.vision import Vision, VisionConfig
from regard.runs.answering import ImageCaptioner, Labeller, SpeechTranscriber, TextGenerator, Translator
from regard.runs.inputs import DigitReader, PairReader, PictureReader, SoundReader, TextReader
from regard.runs.settings import Decoding

WORDS = Tokenizer.train(["one two three four five six seven eight"], kind="word")
SIZES = {"width": 16, "heads": 2, "depth": 2, "hidden_width": 16}


def translator(beam: int = 3) -> Translator:
    """One whose hypotheses can be written as text: untrained ones often say <unk>."""
    config = TransformerConfig(
        source_vocabulary=WORDS.size, target_vocabulary=WORDS.size, decoder_depth=2, **SIZES
    )
    for seed in range(200):
        torch.manual_seed(seed)
        decoding = Decoding(beam=beam, longest=1.0, extra=0)
        made = Translator(Transformer(config).eval(), {"source": WORDS}, decoding)
        best = made.hypotheses(["two three one five"], count=3)[0]
        if all(one.tokens and min(one.tokens) >= len(SPECIAL) for one in best):
            return made
    raise LookupError("no translator that writes words")


def recurrent() -> Translator:
    torch.manual_seed(3)
    config = RecurrentConfig(
        source_vocabulary=WORDS.size, target_vocabulary=WORDS.size, width=16, embedding_width=8
    )
    return Translator(RecurrentTranslator(config).eval(), {"source": WORDS}, Decoding(beam=1, extra=4))


def writer() -> TextGenerator:
    torch.manual_seed(3)
    model = LanguageModel(LanguageConfig(vocabulary=WORDS.size, **SIZES)).eval()
    return TextGenerator(model, {"source": WORDS}, lines=True)


def sorter(pooling: str = "attention") -> Labeller:
    torch.manual_seed(3)
    config = ClassifierConfig(vocabulary=WORDS.size, classes=3, pooling=pooling, **SIZES)
    return Labeller(Classifier(config).eval(), TextReader(WORDS), ["good", "bad", "ugly"])


def counting() -> Labeller:
    """A counter of 4s and 2s."""
    torch.manual_seed(3)
    return Labeller(Counter(CounterConfig()).eval(), DigitReader(), ["no", "yes"])


def viewer() -> Labeller:
    torch.manual_seed(3)
    config = VisionConfig(channels=1, image_size=(8, 8), patch=(2, 2), classes=3, **SIZES)
    return Labeller(Vision(config).eval(), PictureReader((8, 8), 1), ["seven", "two", "three"])


def describer() -> ImageCaptioner:
    """A captioner of 8 × 12 pictures."""
    torch.manual_seed(4)
    config = CaptionerConfig(
        channels=1, image_size=(8, 12), patch=(4, 4), target_vocabulary=WORDS.size, decoder_depth=2, **SIZES
    )
    return ImageCaptioner(
        Captioner(config).eval(), PictureReader((8, 12), 1), WORDS, Decoding(beam=2, tokens=5)
    )


def scribe() -> SpeechTranscriber:
    """A transcriber."""
    torch.manual_seed(4)
    config = TranscriberConfig(target_vocabulary=WORDS.size, decoder_depth=2, bands=8, **SIZES)
    return SpeechTranscriber(
        Transcriber(config).eval(), SoundReader(config), WORDS, Decoding(beam=1, tokens=5)
    )


def listener() -> Labeller:
    """A classifier of recordings."""
    torch.manual_seed(4)
    config = HearingConfig(classes=3, bands=8, **SIZES)
    return Labeller(Hearing(config).eval(), SoundReader(config), ["seven", "two", "three"])


def fused() -> Labeller:
    """A classifier of a picture and a recording."""
    torch.manual_seed(4)
    config = FusionConfig(channels=1, image_size=(8, 8), patch=(2, 2), bands=8, **SIZES)
    reader = PairReader(PictureReader((8, 8), 1), SoundReader(config))
    return Labeller(Fusion(config).eval(), reader, ["different", "same"])
