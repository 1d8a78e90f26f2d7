"""Counting: the counter's own task, with samples drawn as they are needed."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from regard.data.digit_counts import LABELS, VOCABULARY, CountFeed
from regard.data.text_lines import Report
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError
from regard.runs.recipe import Recipe
from regard.runs.results import Metric
from regard.runs.settings import CountingData
from regard.runs.tasks.prepared import Prepared, likelihood


def prepare(
    recipe: Recipe, report: Report, tokenizers: Mapping[str, Tokenizer], labels: list[str] | None
) -> Prepared:
    """Feeds of fresh digits. Validation and test have seeds that no training has."""
    data, config = recipe.data, recipe.model
    if not isinstance(data, CountingData):
        raise RegardError(
            f"data.kind {data.KIND} with model.kind {config.KIND}: its data is counting, nothing else"
        )
    rows = max(1, recipe.training.batch // 10)
    train, valid, test = (
        CountFeed(seed=3 * recipe.seed + number, rows=rows, samples=samples)
        for number, samples in enumerate((data.train, data.valid, data.test))
    )
    return Prepared(
        config=replace(config, vocabulary=VOCABULARY),
        train=train,
        validate=partial(likelihood, feed=valid),
        test=partial(likelihood, feed=test),
        labels=[*LABELS],
        facts={"training samples an epoch": data.train, "test samples": data.test},
    )


def evaluate(loaded: Any, recipe: Recipe, report: Report, answers: Path | None) -> list[Metric]:
    """Loss and accuracy on fresh digits."""
    return prepare(recipe, report, {}, None).test(loaded.model)
