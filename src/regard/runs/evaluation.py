"""Evaluating a run on its own test set, or on another file of the same kind."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.data.atomic import write_atomically
from regard.data.records import Parallel
from regard.data.tables import Column
from regard.data.text_lines import Report
from regard.errors import RegardError
from regard.runs.answering import MediaDescriber, Translator
from regard.runs.load import ready, run_of
from regard.runs.metrics import Metric, translation_metrics
from regard.runs.reading import changed
from regard.runs.recipe import Recipe, anchored
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
from regard.runs.tasks.prepared import dropped, layouts, likelihood


def evaluate_run(
    run: str | os.PathLike[str],
    *,
    on: str | None = None,
    columns: Sequence[Column] | None = None,
    device: str | None = None,
    precision: str | None = None,
    threads: int | None = None,
    compile: bool = False,
    answers: Path | None = None,
    say: Callable[[str], None] = lambda message: None,
    **changes: Any,
) -> list[Metric]:
    """The metrics of a run. `on` names another file than its test set, of which `columns` are read, by name or number;
    `beam=…`, `bleu=…` as in `Decoding`. `say` is told which columns were taken, and what was dropped.
    """
    recipe = anchored(run_of(run).load_recipe())
    loaded = ready(run, device=device, precision=precision, threads=threads, compile=compile)
    recipe, report = _elsewhere(recipe, on, columns), Report()
    if isinstance(loaded, Translator):
        loaded.decoding = changed(loaded.decoding, changes, where="evaluate")
        metrics = _translation(loaded, recipe, answers, report)
    elif isinstance(loaded, MediaDescriber):
        loaded.decoding = changed(loaded.decoding, changes, where="evaluate")
        metrics = _telling(loaded, recipe, answers, report)
    elif changes or answers is not None:
        wanted = ", ".join([*changes, *(["answers"] if answers is not None else [])])
        raise RegardError(
            f"--{wanted}: only for translators, captioners and transcribers; {run} is a {recipe.model.KIND} model"
        )
    else:
        metrics = _likelihood(loaded, recipe, report)
    for line in [*layouts(report), *dropped(report)]:
        say(line)
    return metrics


def _likelihood(loaded: Any, recipe: Recipe, report: Report) -> list[Metric]:
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


def _translation(
    translator: Translator, recipe: Recipe, answers: Path | None, report: Report
) -> list[Metric]:
    pairs = list(translation.pairs_of(recipe, "test")(report))
    if not pairs:
        raise RegardError(f"nothing to evaluate on: no pairs{report.reasons}")
    sources, references = zip(*pairs, strict=True)
    translations = translator.translate(sources)
    if answers is not None:
        _write(answers, "translation", zip(sources, references, translations, strict=True))
    return translation_metrics(translations, references, tokenize=translator.decoding.bleu)


def _telling(describer: MediaDescriber, recipe: Recipe, answers: Path | None, report: Report) -> list[Metric]:
    questions = telling.splits_of(recipe, report)["test"].questions()
    told = telling.tell(describer.model, describer.tokenizer, describer.decoding, questions)
    if answers is not None:
        _write(answers, "answer", told)
    return telling.metrics(told, replace(recipe, decoding=describer.decoding))


def _write(path: Path, what: str, rows: Iterable[Sequence[str]]) -> None:
    lines = ("\t".join(" ".join(cell.split()) for cell in row) for row in rows)
    write_atomically(path, f"source\treference\t{what}\n" + "\n".join(lines) + "\n")


def _elsewhere(recipe: Recipe, on: str | None, columns: Sequence[Column] | None) -> Recipe:
    """The recipe with another test set."""
    if on is None:
        if columns is not None:
            raise RegardError(f"--columns {','.join(map(str, columns))}: of which file? Name it with --on")
        return recipe
    data = recipe.data
    if isinstance(data, NumberData):
        data = PairData(train="")
    if isinstance(data, PairData):
        source, comma, target = on.partition(",")
        if comma:  # two files have no columns
            if columns is not None:
                raise RegardError(f"--columns with --on {on}: two parallel files have no columns")
            return replace(recipe, data=replace(data, folder="", columns=None, test=Parallel(source, target)))
        return replace(recipe, data=replace(data, folder="", test=on, **_columns(columns)))
    if isinstance(data, TextData):
        data = replace(data, folder="", train=on, valid=on, test=on)
        if columns is not None:
            data = replace(data, column=_one(columns), unit="lines")
        return replace(recipe, data=data)
    if isinstance(data, LabelledData | ImageData | SoundData):
        moved = replace(data, folder="", train=on, valid=on, test=on, **_columns(columns))
        return replace(recipe, data=moved)
    raise RegardError(f"--on {on}: the test data of {data.KIND} is always its own")


def _columns(columns: Sequence[Column] | None) -> dict[str, Any]:
    if columns is not None and len(columns) != 2:
        raise RegardError(f"--columns {','.join(map(str, columns))}: give two, such as english,french or 2,3")
    return {} if columns is None else {"columns": tuple(columns)}


def _one(columns: Sequence[Column]) -> Column:
    if len(columns) != 1:
        raise RegardError(f"--columns {','.join(map(str, columns))}: give one, that of the texts")
    return columns[0]
