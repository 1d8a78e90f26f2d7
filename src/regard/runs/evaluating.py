"""Evaluating a run on its own test set, or on another file of the same kind."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.data.atomic import write_atomically
from regard.data.lines import Report
from regard.data.pairs import Parallel
from regard.errors import RegardError
from regard.runs.folder import RunFolder
from regard.runs.metrics import Metric, translation_metrics
from regard.runs.reading import changed
from regard.runs.ready import ready
from regard.runs.recipe import Recipe
from regard.runs.settings import (
    DigitData,
    ImageData,
    LabelledData,
    NumberData,
    PairData,
    SameData,
    SoundData,
    SpokenData,
    TextData,
)
from regard.runs.tasks import classification, counting, language, same, sorting, telling, translation
from regard.runs.tasks.prepared import likelihood
from regard.runs.teller import Teller
from regard.runs.translator import Translator


def evaluate_run(
    run: str | os.PathLike[str],
    *,
    on: str | None = None,
    device: str | None = None,
    precision: str | None = None,
    threads: int | None = None,
    compile: bool = False,
    answers: Path | None = None,
    **changes: Any,
) -> list[Metric]:
    """The metrics of a run. `on` names another file than its test set; `beam=…`, `bleu=…` as in `Decoding`."""
    folder = RunFolder.existing(run)
    recipe = folder.load_recipe()
    loaded = ready(run, device=device, precision=precision, threads=threads, compile=compile)
    if isinstance(loaded, Translator):
        loaded.decoding = changed(loaded.decoding, changes, where="evaluate")
        return _translation(loaded, _elsewhere(recipe, on), answers)
    if isinstance(loaded, Teller):
        loaded.decoding = changed(loaded.decoding, changes, where="evaluate")
        return _telling(loaded, _elsewhere(recipe, on), answers)
    if changes or answers is not None:
        asked = ", ".join([*changes, *(["answers"] if answers is not None else [])])
        raise RegardError(
            f"--{asked}: only for translators, captioners and transcribers; {run} is a {recipe.model.KIND} model"
        )
    recipe, report = _elsewhere(recipe, on), Report()
    match recipe.data:
        case TextData() as data:
            texts = language.texts_of(data, report)["test"]
            feed: Any = language.feed_of(recipe, texts, loaded.tokenizer, shift=False)
        case LabelledData() as data:
            samples = classification.samples_of(data, report)["test"]
            feed = classification.feed_of(recipe, samples, loaded.reader.tokenizer, loaded.labels)
        case SameData():
            feed = same.feed_of(recipe, "test", report)
        case DigitData() | ImageData() | SoundData() | SpokenData():
            pool = sorting.pools_of(recipe, report)["test"]
            feed = sorting.feed_of(recipe, pool, loaded.labels, "test")
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
        _write(answers, "translation", zip(sources, references, translations, strict=True))
    return translation_metrics(translations, references, tokenize=translator.decoding.bleu)


def _telling(teller: Teller, recipe: Recipe, answers: Path | None) -> list[Metric]:
    questions = telling.splits_of(recipe, Report())["test"].questions()
    told = telling.tell(teller.model, teller.tokenizer, teller.decoding, questions)
    if answers is not None:
        _write(answers, "answer", told)
    return telling.metrics(told, replace(recipe, decoding=teller.decoding))


def _write(path: Path, what: str, rows: Iterable[Sequence[str]]) -> None:
    lines = ("\t".join(" ".join(cell.split()) for cell in row) for row in rows)
    write_atomically(path, f"source\treference\t{what}\n" + "\n".join(lines) + "\n")


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
    if isinstance(data, ImageData | SoundData):
        return replace(recipe, data=replace(data, folder="", train=on, valid=on, test=on))
    raise RegardError(f"--on {on}: the test data of {data.KIND} is always its own")
