"""Evaluating a run on its own test set, or on another file of the same kind."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.data.records import Column
from regard.data.text_lines import Parallel, Report
from regard.errors import RegardError
from regard.models.kind import Kind
from regard.runs.answering import Loaded, MediaDescriber, Translator
from regard.runs.load import ready, run_of
from regard.runs.recipe import Recipe, with_changes
from regard.runs.results import Metric
from regard.runs.settings import (
    ImageData,
    LabelledData,
    NumberData,
    PairData,
    SoundData,
    TextData,
)
from regard.runs.tasks import TASKS
from regard.runs.tasks.prepared import anchored, dropped, layouts


def evaluate_run(
    run: str | os.PathLike[str],
    *,
    on: str | None = None,
    columns: Sequence[Column] | None = None,
    device: str | None = None,
    precision: str | None = None,
    threads: int | None = None,
    answers: Path | None = None,
    say: Callable[[str], None] = lambda message: None,
    on_load: Callable[[Loaded], None] = lambda loaded: None,
    kinds: Sequence[Kind] = (),
    **changes: Any,
) -> list[Metric]:
    """The metrics of a run. `on` names another file than its test set, of which `columns` are read, by name or number;
    `beam=…`, `bleu=…` as in `Decoding`. `say` gets which columns were taken, and what was dropped; `on_load` the loaded run,
    before it answers.
    """
    folder = run_of(run, kinds=kinds)
    if folder.is_shipped and on is None:
        raise RegardError(f"{run} comes with regard, without its test data: give a file, --on FILE")
    recipe = anchored(folder.load_recipe())
    loaded = ready(run, device=device, precision=precision, threads=threads, kinds=kinds)
    on_load(loaded)
    recipe, report = _elsewhere(recipe, on, columns), Report()
    if isinstance(loaded, Translator | MediaDescriber):
        loaded.decoding = with_changes(loaded.decoding, changes, where="evaluate")
    elif changes or answers is not None:
        wanted = ", ".join([*changes, *(["answers"] if answers is not None else [])])
        raise RegardError(
            f"--{wanted}: only for translators, captioners and transcribers; {run} is a {recipe.kind.name} model"
        )
    metrics = TASKS[recipe.kind.task].evaluate(loaded, recipe, report, answers)
    for line in [*layouts(report), *dropped(report)]:
        say(line)
    return metrics


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
