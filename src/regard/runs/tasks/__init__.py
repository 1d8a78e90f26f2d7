"""Tasks: what a recipe trains for. One file each; this one chooses."""

from collections.abc import Mapping

from regard.data.text_lines import Report
from regard.data.tokenizer import Tokenizer
from regard.models.captioner import CaptionerConfig, RecurrentCaptionerConfig
from regard.models.transcriber import TranscriberConfig
from regard.runs.recipe import Recipe
from regard.runs.settings import (
    CountingData,
    DigitData,
    ImageData,
    LabelledData,
    SameData,
    SoundData,
    SpokenData,
    StripData,
    TextData,
)
from regard.runs.tasks import classification, counting, language, same, sorting, telling, translation
from regard.runs.tasks.prepared import Prepared, packs


def prepare(
    recipe: Recipe,
    report: Report,
    *,
    tokenizers: Mapping[str, Tokenizer] | None = None,
    labels: list[str] | None = None,
) -> Prepared:
    """Read the data of a recipe. Tokenizers and labels of an earlier start are taken as they are."""
    packs(recipe)  # which refuses what cannot be packed
    match recipe.data:
        case CountingData():
            return counting.prepare(recipe)
        case TextData():
            return language.prepare(recipe, tokenizers or {}, report)
        case SameData():
            return same.prepare(recipe, report)
        case StripData() | DigitData() | ImageData() | SoundData() | SpokenData():
            if tells(recipe):
                return telling.prepare(recipe, tokenizers or {}, report)
            return sorting.prepare(recipe, report, labels)
        case LabelledData():
            return classification.prepare(recipe, tokenizers or {}, report, labels)
        case _:
            return translation.prepare(recipe, tokenizers or {}, report)


def tells(recipe: Recipe) -> bool:
    """Whether pictures or recordings are told of in words, rather than sorted into classes."""
    writes = CaptionerConfig | RecurrentCaptionerConfig | TranscriberConfig
    return isinstance(recipe.data, StripData) or isinstance(recipe.model, writes)
