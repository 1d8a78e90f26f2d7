"""Sorting: pictures or recordings into classes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from regard.data.batches import Feed
from regard.data.digits import SIDE
from regard.data.media_feeds import ImageFeed, SoundFeed
from regard.data.text_lines import Report
from regard.errors import RegardError
from regard.models.convolution import ConvolutionConfig
from regard.models.hearing import HearingConfig
from regard.models.vision import VisionConfig
from regard.runs.metrics import Metric
from regard.runs.recipe import Recipe
from regard.runs.settings import DigitData, ImageData, SoundData, SpokenData
from regard.runs.tasks import pictures, sounds
from regard.runs.tasks.pools import Pool, prefetched
from regard.runs.tasks.prepared import Prepared, counted, likelihood
from regard.runs.tasks.translation import SPLITS


def prepare(recipe: Recipe, report: Report, labels: list[str] | None = None) -> Prepared:
    """Pictures or recordings read, or looked at once; classes in alphabetical order."""
    pools = pools_of(recipe, report)
    labels = labels or sorted(set(pools["train"].told))
    if len(labels) < 2:
        raise RegardError(f"data.train: all samples are of the class {labels[0]!r}")
    feeds = {split: feed_of(recipe, pools[split], labels, split) for split in SPLITS}

    def validate(model: nn.Module) -> list[Metric]:
        return likelihood(model, feeds["valid"])

    def test(model: nn.Module) -> list[Metric]:
        return likelihood(model, feeds["test"])

    return Prepared(
        config=_fitted(recipe, len(labels)),
        train=feeds["train"],
        validate=validate,
        test=test,
        labels=labels,
        facts={
            "training samples": len(pools["train"].told),
            "validation samples": len(pools["valid"].told),
            "test samples": len(pools["test"].told),
            "classes": len(labels),
        },
        classes=counted(pools["train"].told),
        samples=pools["train"].samples(),
    )


def pools_of(recipe: Recipe, report: Report) -> dict[str, Pool[Any]]:
    """What is to be sorted, in its splits."""
    data, config = recipe.data, recipe.model
    if isinstance(data, DigitData | ImageData) and isinstance(config, VisionConfig | ConvolutionConfig):
        return pictures.pools_of(data, report)
    if isinstance(data, SoundData | SpokenData) and isinstance(config, HearingConfig):
        return sounds.pools_of(data, report, rate=config.rate)
    raise RegardError(
        f"data.kind {data.KIND} with model.kind {config.KIND}: vision and convolution look at pictures (digits, "
        "images), hearing listens to recordings (sounds, spoken-digits)"
    )


def feed_of(recipe: Recipe, pool: Pool[Any], labels: Sequence[str], split: str) -> Feed[Any]:
    """Samples and the numbers of their classes, jittered in training alone. Those on disk are read ahead."""
    data: Any = recipe.data
    kind: Any = SoundFeed if isinstance(recipe.model, HearingConfig) else ImageFeed
    feed = kind(
        pool.inputs,
        pool.numbers(labels),
        rows=recipe.training.batch,
        seed=recipe.seed,
        jitter=data.jitter if split == "train" else None,
    )
    return prefetched(feed, pool.inputs)


def _fitted(recipe: Recipe, classes: int) -> VisionConfig | ConvolutionConfig | HearingConfig:
    data, config = recipe.data, recipe.model
    if isinstance(config, HearingConfig):
        return replace(config, classes=classes)
    if isinstance(config, VisionConfig | ConvolutionConfig):
        size, channels = (data.size, data.channels) if isinstance(data, ImageData) else ((SIDE, SIDE), 1)
        return replace(config, classes=classes, image_size=size, channels=channels)
    raise RegardError(f"model.kind: {config.KIND} does not sort pictures or recordings")
