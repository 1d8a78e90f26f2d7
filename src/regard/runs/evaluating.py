"""Evaluating a run on its own test set, or on another file of the same kind."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.data.lines import Report
from regard.data.pairs import Parallel
from regard.errors import RegardError
from regard.runs.folder import RunFolder
from regard.runs.load import load
from regard.runs.metrics import Metric, translation_metrics
from regard.runs.reading import changed
from regard.runs.recipe import Recipe
from regard.runs.settings import DigitData, ImageData, LabelledData, NumberData, PairData, TextData
from regard.runs.tasks import classification, counting, language, pictures, translation
from regard.runs.tasks.prepared import likelihood
from regard.runs.translator import Translator


def evaluate_run(
    run: str | os.PathLike[str],
    *,
    on: str | None = None,
    device: str | None = None,
    answers: Path | None = None,
    **changes: Any,
) -> list[Metric]:
    """The metrics of a run. `on` names another file than its test set; `beam=…`, `bleu=…` as in `Decoding`."""
    folder = RunFolder.existing(run)
    recipe, loaded = folder.load_recipe(), load(run, device=device)
    if isinstance(loaded, Translator):
        loaded.decoding = changed(loaded.decoding, changes, where="evaluate")
        return _translation(loaded, _elsewhere(recipe, on), answers)
    if changes or answers is not None:
        asked = ", ".join([*changes, *(["answers"] if answers is not None else [])])
        raise RegardError(f"--{asked}: only for translators; {run} is a {recipe.model.KIND} model")
    recipe, report = _elsewhere(recipe, on), Report()
    match recipe.data:
        case TextData() as data:
            texts = language.texts_of(data, report)["test"]
            feed: Any = language.feed_of(recipe, texts, loaded.tokenizer, shift=False)
        case LabelledData() as data:
            samples = classification.samples_of(data, report)["test"]
            feed = classification.feed_of(recipe, samples, loaded.tokenizer, loaded.labels)
        case DigitData() | ImageData() as data:
            pool = pictures.pools_of(data, report)["test"]
            feed = pictures.feed_of(recipe, pool, loaded.labels, None)
        case _:
            return counting.prepare(recipe).test(loaded)
    return likelihood(loaded.model, feed)


def _translation(translator: Translator, recipe: Recipe, answers: Path | None) -> list[Metric]:
    pairs = list(translation.pairs_of(recipe, "test", Report())())
    if not pairs:
        raise RegardError("nothing to evaluate on: no pairs")
    sources, references = zip(*pairs, strict=True)
    translations = translator.translate(sources)
    if answers is not None:
        rows = (
            "\t".join(_flat(cell) for cell in row)
            for row in zip(sources, references, translations, strict=True)
        )
        try:
            answers.write_text("source\treference\ttranslation\n" + "\n".join(rows) + "\n", "utf-8")
        except OSError as error:
            raise RegardError(f"{answers} cannot be written ({error.strerror})") from None
    return translation_metrics(translations, references, tokenize=translator.decoding.bleu)


def _elsewhere(recipe: Recipe, on: str | None) -> Recipe:
    """The recipe with another test set."""
    if on is None:
        return recipe
    data = recipe.data
    if isinstance(data, NumberData):
        data = PairData(train="")
    if isinstance(data, PairData):
        source, comma, target = on.partition(",")
        if comma:  # two files have no columns
            return replace(recipe, data=replace(data, folder="", columns=None, test=Parallel(source, target)))
        return replace(recipe, data=replace(data, folder="", test=on))
    if isinstance(data, TextData | LabelledData):
        return replace(recipe, data=replace(data, folder="", train=on, valid=on, test=on))
    if isinstance(data, ImageData):
        return replace(recipe, data=replace(data, folder="", train=on, valid=on, test=on))
    raise RegardError(f"--on {on}: the counter and the digits have no other data")


def _flat(text: str) -> str:
    return " ".join(text.split())
