"""Digit matching: are a handwritten digit and a spoken one the same? For a model that reads both."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from regard.data.augment import Jitter, SoundJitter
from regard.data.digit_pairs import DigitMatchFeed, Senses
from regard.data.digits import SIDE, digit_split, digits
from regard.data.media_feeds import Recordings
from regard.data.text_lines import Report
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError
from regard.runs.recipe import Recipe
from regard.runs.results import Metric
from regard.runs.settings import SameData
from regard.runs.tasks.media import Pool, sound_pools
from regard.runs.tasks.prepared import Prepared, likelihood
from regard.runs.tasks.translation import SAMPLES

LABELS = ["different", "same"]
_VALID, _TEST = 1_000_001, 1_000_002  # seeds that no training has


def prepare(
    recipe: Recipe, report: Report, tokenizers: Mapping[str, Tokenizer], labels: list[str] | None
) -> Prepared:
    """Pairs of digits. No handwritten digit and no speaker of the test occurs in training."""
    data, config = checked(recipe)
    feeds = {split: feed_of(recipe, split, report) for split in ("train", "valid", "test")}

    return Prepared(
        config=replace(config, classes=len(LABELS), image_size=(SIDE, SIDE), channels=1),
        train=feeds["train"],
        validate=partial(likelihood, feed=feeds["valid"]),
        test=partial(likelihood, feed=feeds["test"]),
        labels=LABELS,
        facts={
            "training pairs an epoch": data.samples,
            "validation pairs": data.valid,
            "test pairs": data.test,
        },
        classes={"different": data.samples // 2, "same": data.samples - data.samples // 2},
        samples=_samples(feeds["train"]),
    )


def evaluate(loaded: Any, recipe: Recipe, report: Report, answers: Path | None) -> list[Metric]:
    """Loss and accuracy on the pairs of the test."""
    return likelihood(loaded.model, feed_of(recipe, "test", report))


def _samples(feed: DigitMatchFeed) -> list[tuple[str, str]]:
    count = min(SAMPLES, feed.samples)
    senses = feed.senses
    return [
        (f"a {int(senses.shown[picture])} in a picture, a {int(senses.said[sound])} said", LABELS[label])
        for picture, sound, label in zip(*feed.drawn(range(count)), strict=True)
    ]


def checked(recipe: Recipe) -> tuple[SameData, Any]:
    """The data and the model of a recipe, if they are for this task."""
    data, config = recipe.data, recipe.model
    if not isinstance(data, SameData):
        raise RegardError(
            f"data.kind {data.KIND} with model.kind {config.KIND}: its data is same, pairs of a picture and a sound"
        )
    if (config.first, config.second) != ("image", "sound"):
        raise RegardError(
            f"model.first={config.first}, model.second={config.second}: this data is of image and sound, in this order"
        )
    return data, config


def feed_of(recipe: Recipe, split: str, report: Report) -> DigitMatchFeed:
    """The pairs of a split, jittered in training alone."""
    data, config = checked(recipe)
    pixels, labels = digits()
    shown = torch.tensor(getattr(digit_split(), split))
    heard: Pool[Recordings] = sound_pools(data, report, rate=config.rate)[split]
    senses = Senses(
        pixels=pixels[shown],
        shown=labels[shown],
        sounds=heard.inputs.at(range(len(heard.told))),
        said=torch.tensor([int(each) for each in heard.told]),
    )
    train = split == "train"
    return DigitMatchFeed(
        senses,
        seed={"train": recipe.seed, "valid": _VALID, "test": _TEST}[split],
        rows=recipe.training.batch,
        samples={"train": data.samples, "valid": data.valid, "test": data.test}[split],
        jitter=data.picture_jitter if train else Jitter(),
        sound_jitter=data.jitter if train else SoundJitter(),
        without=data.without,
    )
