"""What data say before they are tokenised: how much there is, and the settings that follow from it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path
from statistics import median
from typing import Any

from regard.data.audio import read_recording
from regard.data.idx import read_mnist
from regard.data.images import picture_facts
from regard.data.text_lines import Report
from regard.errors import RegardError
from regard.models.kind import Task
from regard.runs.recipe import Recipe
from regard.runs.settings import ImageData, LabelledData, PairData, SoundData, TextData
from regard.runs.tasks.classification import samples_of
from regard.runs.tasks.language_modelling import texts_of
from regard.runs.tasks.media import is_mnist, read_told
from regard.runs.tasks.prepared import located
from regard.runs.tasks.translation import pairs_of

_FEW_LETTERS = 3_000_000  # of a stream that is read letter by letter …
_ALPHABET = 300  # … if it has no more different ones than this
_LOOKED_AT = 100  # pictures or recordings whose size is looked at
_MOST_PATCHES = {"grey": 25, "colour": 64}  # of a picture
_HELD_OUT = 1000  # samples for validation, and as many for the test: enough to measure on


@dataclass(frozen=True, kw_only=True)
class DataSurvey:
    """How much data there is, in words, and the settings that follow from it: place in the recipe → value."""

    told: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()  # for some of them


def survey(recipe: Recipe) -> DataSurvey:
    """Look through the data of a recipe."""
    looks: dict[Task, Callable[[Recipe], DataSurvey]] = {
        "translation": _pairs,
        "language": _stream,
        "classification": _labelled,
        "description": _described,
    }
    if recipe.kind.task not in looks or not recipe.kind.sizes:
        raise RegardError(
            f"plan: a {recipe.kind.name} is trained as its recipe says; what can be planned are models that have sizes to "
            "choose from (a transformer, language model, classifier, vision, captioner, hearing, transcriber) on your own files"
        )
    return looks[recipe.kind.task](recipe)


def vocabulary(letters: int) -> int:
    """How many tokens suit a text: 3.5 · √letters. Of 4,000, half and twice as many, 4,000 was best for 20,000 pairs."""
    size = 3.5 * sqrt(letters)
    step = 100 if size < 2000 else 500
    return min(max(round(size / step) * step, 300), 32_000)


def _pairs(recipe: Recipe) -> DataSurvey:
    if not isinstance(recipe.data, PairData):
        raise _made(recipe)
    count = letters = 0
    for source, target in pairs_of(recipe, "train")():
        count, letters = count + 1, letters + len(source) + len(target)
    return DataSurvey(
        told=f"{count:,} pairs of {letters / max(2 * count, 1):.0f} characters a side",
        settings={"tokens.size": vocabulary(letters), "data.held_out": _held_out(recipe, count)},
        reasons=(f"{vocabulary(letters):,} tokens, which suit {letters:,} characters",),
    )


def _stream(recipe: Recipe) -> DataSurvey:
    data = recipe.data
    if not isinstance(data, TextData):
        raise _made(recipe)
    letters, alphabet = 0, set[str]()
    for text in texts_of(data, Report())["train"]():
        letters += len(text)
        alphabet.update(text)
    told = f"{letters:,} characters"
    kind = _given(recipe, "tokens", "kind")
    by_letter = data.unit == "stream" and letters < _FEW_LETTERS and len(alphabet) <= _ALPHABET
    if kind == "character" or (kind is None and by_letter):
        return DataSurvey(
            told=told,
            settings={"tokens.kind": "character", "data.context": 128},
            reasons=(f"{len(alphabet)} letters, one token each: the text is short",),
        )
    size = vocabulary(letters)
    reason = f"{size:,} tokens, which suit {letters:,} characters"
    return DataSurvey(told=told, settings={"tokens.size": size, "data.context": 128}, reasons=(reason,))


def _labelled(recipe: Recipe) -> DataSurvey:
    if recipe.kind.reads != ("text",):
        return _media(recipe, "label")
    data = recipe.data
    if not isinstance(data, LabelledData):
        raise _made(recipe)
    texts = samples_of(data, Report())["train"]
    letters = sum(len(text) for text, _ in texts)
    return DataSurvey(
        told=f"{len(texts):,} texts of {letters / max(len(texts), 1):.0f} characters",
        settings={"tokens.size": vocabulary(letters)},
        reasons=(f"{vocabulary(letters):,} tokens, which suit {letters:,} characters",),
    )


def _described(recipe: Recipe) -> DataSurvey:
    return _media(recipe, "caption" if recipe.kind.reads == ("picture",) else "text")


def _media(recipe: Recipe, told: str) -> DataSurvey:
    data = recipe.data
    if recipe.kind.reads == ("picture",) and isinstance(data, ImageData):
        return _pictures(data, told)
    if recipe.kind.reads == ("sound",) and isinstance(data, SoundData):
        return _sounds(data, told)
    raise _made(recipe)


def _pictures(data: ImageData, told: str) -> DataSurvey:
    """The usual size, in patches of which there are not many, and grey where all are."""
    path = located(data.folder, data.train)
    if is_mnist(path):
        pixels, _ = read_mnist(path, "train")
        count, (height, width), grey = len(pixels), (int(pixels.shape[-2]), int(pixels.shape[-1])), True
    elif Path(path).suffix == ".parquet":
        return DataSurvey(told=f"pictures in {Path(path).name}")
    else:
        files = read_told(data, path, ("file", told), Report())
        some = [
            found
            for each in files[:: max(len(files) // _LOOKED_AT, 1)]
            if (found := picture_facts(each.path)) is not None
        ]
        if not some:
            return DataSurvey(told=f"{len(files):,} pictures")
        count, grey = len(files), all(each.grey for each in some)
        height, width = (
            _side(median([getattr(each, side) for each in some])) for side in ("height", "width")
        )
    patch = _patch(height, width, _MOST_PATCHES["grey" if grey else "colour"])
    letters = sum(len(each.text) for each in files) if told == "caption" and not is_mnist(path) else 0
    return DataSurvey(
        told=f"{count:,} {'grey ' if grey else ''}pictures",
        settings={
            "data.size": [height, width],
            "data.channels": 1 if grey else 3,
            "model.patch": [patch, patch],
            **({"tokens.size": vocabulary(letters)} if letters else {}),
        },
        reasons=(f"pictures of {height} × {width} in patches of {patch} × {patch}",),
    )


def _side(length: float) -> int:
    """A side of a picture as it is looked at: at most 64 pixels, in whole eights where it has that many."""
    length = min(round(length), 64)
    return length if length < 32 else length // 8 * 8


def _patch(height: int, width: int, most: int) -> int:
    """The smallest patch that divides both sides into no more patches than so many."""
    fits = (
        each
        for each in range(1, max(height, width) + 1)
        if height % each == 0 and width % each == 0 and height * width <= most * each * each
    )
    return next(fits, min(height, width))


def _sounds(data: SoundData, told: str) -> DataSurvey:
    """The usual rate, up to one at which speech loses little."""
    files = read_told(data, located(data.folder, data.train), ("file", told), Report())
    some = [
        read_recording(each.path)
        for each in files[:: max(len(files) // _LOOKED_AT, 1)]
        if Path(each.path).is_file()
    ]
    if not some:
        return DataSurvey(told=f"{len(files):,} recordings")
    rate = min(int(median([each.rate for each in some])), 16_000)
    seconds = median([len(each.samples) / each.rate for each in some])
    return DataSurvey(
        told=f"{len(files):,} recordings of {seconds:.1f} s",
        settings={
            "model.rate": rate,
            "model.window": rate // 40,
            "model.hop": rate // 100,
            "model.bands": 40 if rate <= 8000 else 64,
        },
        reasons=(f"{rate:,} samples a second",),
    )


def _held_out(recipe: Recipe, count: int) -> float:
    """The share that is held out, which need not be more than some samples."""
    usual = float(getattr(recipe.data, "held_out", 0.0))
    return min(usual, round(_HELD_OUT / max(count, 1), 4)) if count else usual


def _given(recipe: Recipe, *place: str) -> Any:
    """What the recipe says itself of a setting; None if it leaves it out."""
    value: Any = recipe.given
    for name in place:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _made(recipe: Recipe) -> RegardError:
    return RegardError(
        f"plan: data.kind {recipe.data.KIND} with model.kind {recipe.kind.name} is not planned; take files of your own, or a "
        "recipe that says everything"
    )
