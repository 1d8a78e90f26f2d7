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
from regard.runs.tasks.prepared import Prepared


class TaskFunctions(NamedTuple):
    """What a task consists of."""

    # From the recipe, a report, and the tokenizers and labels of an earlier start, if any.
    prepare: Callable[[Recipe, Report, Mapping[str, Tokenizer], list[str] | None], Prepared]
    # The metrics of what was loaded on the test data of a recipe; where it answers in text, a file for the answers.
    evaluate: Callable[[Any, Recipe, Report, Path | None], list[Metric]]


TASKS: dict[Task, TaskFunctions] = {
    "translation": TaskFunctions(translation.prepare, translation.evaluate),
    "language": TaskFunctions(language_modelling.prepare, language_modelling.evaluate),
    "classification": TaskFunctions(classification.prepare, classification.evaluate),
    "description": TaskFunctions(description.prepare, description.evaluate),
    "digit-match": TaskFunctions(digit_match.prepare, digit_match.evaluate),
    "counting": TaskFunctions(counting.prepare, counting.evaluate),
}
