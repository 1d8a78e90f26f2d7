"""Counting: the counter's own task, made as it is needed."""

from dataclasses import replace

from torch import nn

from regard.data.digit_counts import VOCABULARY, CountFeed
from regard.errors import RegardError
from regard.models.counter import CounterConfig
from regard.runs.metrics import Metric
from regard.runs.recipe import Recipe
from regard.runs.settings import CountingData
from regard.runs.tasks.prepared import Prepared, likelihood


def prepare(recipe: Recipe) -> Prepared:
    """Feeds of fresh digits. Validation and test have seeds of their own, which no training has."""
    data, config = recipe.data, recipe.model
    if not isinstance(data, CountingData) or not isinstance(config, CounterConfig):
        raise RegardError(
            f"data.kind {data.KIND} with model.kind {config.KIND}: the counter counts, and nothing else"
        )
    rows = max(1, recipe.training.batch // 10)
    train, valid, test = (
        CountFeed(seed=3 * recipe.seed + number, rows=rows, samples=samples)
        for number, samples in enumerate((data.train, data.valid, data.test))
    )

    def validate(model: nn.Module) -> list[Metric]:
        return likelihood(model, valid)

    def tested(model: nn.Module) -> list[Metric]:
        return likelihood(model, test)

    return Prepared(
        config=replace(config, vocabulary=VOCABULARY),
        train=train,
        validate=validate,
        test=tested,
        facts={"training samples an epoch": data.train, "test samples": data.test},
    )
