"""Tasks: how a model is trained for what it does, and evaluated. One file each; a `Kind` names its task."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from regard.data.text_lines import Report
from regard.data.tokenizer import Tokenizer
from regard.models.kind import Task
from regard.runs.recipe import Recipe
from regard.runs.results import Metric
from regard.runs.tasks import (
    classification,
    counting,
    description,
    digit_match,
    language_modelling,
    translation,
)
from regard.runs.tasks.prepared import Prepared, packs


class _Task(NamedTuple):
    # From the recipe, a report, and the tokenizers and labels of an earlier start, if any.
    prepare: Callable[[Recipe, Report, Mapping[str, Tokenizer], list[str] | None], Prepared]
    # The metrics of what was loaded on the test data of a recipe; where it answers in text, a file for the answers.
    evaluate: Callable[[Any, Recipe, Report, Path | None], list[Metric]]


_TASKS: dict[Task, _Task] = {
    "translation": _Task(translation.prepare, translation.evaluate),
    "language": _Task(language_modelling.prepare, language_modelling.evaluate),
    "classification": _Task(classification.prepare, classification.evaluate),
    "description": _Task(description.prepare, description.evaluate),
    "digit-match": _Task(digit_match.prepare, digit_match.evaluate),
    "counting": _Task(counting.prepare, counting.evaluate),
}


def prepare(
    recipe: Recipe,
    report: Report,
    *,
    tokenizers: Mapping[str, Tokenizer] | None = None,
    labels: list[str] | None = None,
) -> Prepared:
    """Read the data of a recipe. Tokenizers and labels of an earlier start are taken as they are."""
    packs(recipe)  # which refuses what cannot be packed
    return _TASKS[recipe.kind.task].prepare(recipe, report, tokenizers or {}, labels)


def evaluate(loaded: Any, recipe: Recipe, report: Report, *, answers: Path | None = None) -> list[Metric]:
    """The metrics of a loaded run on the test data of a recipe."""
    return _TASKS[recipe.kind.task].evaluate(loaded, recipe, report, answers)
