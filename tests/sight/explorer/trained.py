"""Translators, language models and classifiers with weights drawn at random: whole, but untrained."""

import torch

from regard.data.batches import SPECIAL
from regard.data.tokenizer import Tokenizer
from regard.models.classifier import Classifier, ClassifierConfig
from regard.models.language import LanguageConfig, LanguageModel
from regard.models.recurrent import RecurrentConfig, RecurrentTranslator
from regard.models.transformer import Transformer, TransformerConfig
from regard.models.vision import Vision, VisionConfig
from regard.runs.settings import Decoding
from regard.runs.sorter import Sorter
from regard.runs.translator import Translator
from regard.runs.viewer import Viewer
from regard.runs.writer import Writer

WORDS = Tokenizer.train(["one two three four five six seven eight"], kind="word")
SIZES = {"width": 16, "heads": 2, "depth": 2, "inner": 16}


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


def writer() -> Writer:
    torch.manual_seed(3)
    model = LanguageModel(LanguageConfig(vocabulary=WORDS.size, **SIZES)).eval()
    return Writer(model, {"source": WORDS}, lines=True)


def sorter(pooling: str = "attention") -> Sorter:
    torch.manual_seed(3)
    config = ClassifierConfig(vocabulary=WORDS.size, classes=3, pooling=pooling, **SIZES)
    return Sorter(Classifier(config).eval(), {"source": WORDS}, ["good", "bad", "ugly"])


def viewer() -> Viewer:
    torch.manual_seed(3)
    config = VisionConfig(channels=1, image_size=(8, 8), patch=(2, 2), classes=3, **SIZES)
    return Viewer(Vision(config).eval(), ["seven", "two", "three"])
