"""Digit matching, for a model of two senses: are a handwritten digit and a spoken one the same, and at which place of a
written row of words is the spoken one?
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.data.augment import Jitter, SoundJitter
from regard.data.digit_pairs import DigitMatchFeed, Senses
from regard.data.digits import SIDE, digit_split, digits
from regard.data.spoken_places import PLACES, WORDS, SpokenPlaceFeed
from regard.data.text_lines import Report
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError
from regard.runs.recipe import Recipe
from regard.runs.results import Metric
from regard.runs.settings import PlaceData, SameData
from regard.runs.tasks.media import sound_pools
from regard.runs.tasks.prepared import Prepared, likelihood
from regard.runs.tasks.translation import SAMPLES, SPLITS, trained

LABELS = ["different", "same"]
_VALID, _TEST = 1_000_001, 1_000_002  # seeds that no training has


def prepare(
    recipe: Recipe, report: Report, tokenizers: Mapping[str, Tokenizer], labels: list[str] | None
) -> Prepared:
    """Pairs of what two senses bring. No handwritten digit and no speaker of the test occurs in training."""
    data, config = checked(recipe)
    if isinstance(data, PlaceData):
        labels, tokenizers = [*PLACES[: data.words]], dict(tokenizers) or words_of(recipe)
        config = replace(config, vocabulary=tokenizers["source"].size)
    else:
        labels, tokenizers = LABELS, {}
        config = replace(config, image_size=(SIDE, SIDE), channels=1)
    feeds = {split: feed_of(recipe, split, report, tokenizers.get("source")) for split in SPLITS}
    whole, rest = divmod(data.samples, len(labels))
    # Samples take the labels in turn; of two senses that are compared, the first of them is "same".
    turns = labels if isinstance(data, PlaceData) else labels[::-1]
    counts = {label: whole + (number < rest) for number, label in enumerate(turns)}

    return Prepared(
        config=replace(config, classes=len(labels)),
        train=feeds["train"],
        validate=partial(likelihood, feed=feeds["valid"]),
        test=partial(likelihood, feed=feeds["test"]),
        tokenizers=tokenizers,
        labels=labels,
        facts={
            "training pairs an epoch": data.samples,
            "validation pairs": data.valid,
            "test pairs": data.test,
        },
        classes={label: counts[label] for label in labels},
        samples=[(given, labels[label]) for given, label in _samples(feeds["train"])],
    )


def evaluate(loaded: Any, recipe: Recipe, report: Report, answers: Path | None) -> list[Metric]:
    """Loss and accuracy on the pairs of the test."""
    tokenizer = getattr(loaded.reader.second, "tokenizer", None)
    return likelihood(loaded.model, feed_of(recipe, "test", report, tokenizer))


def checked(recipe: Recipe) -> tuple[SameData | PlaceData, Any]:
    """The data and the model of a recipe, if they are for this task."""
    data, config = recipe.data, recipe.model
    if not isinstance(data, SameData | PlaceData):
        raise RegardError(
            f"data.kind {data.KIND} with model.kind {config.KIND}: its data is same, pairs of a picture and a sound, or "
            "spoken-place, pairs of a sound and a text"
        )
    first, second = ("sound", "text") if isinstance(data, PlaceData) else ("image", "sound")
    if (config.first, config.second) != (first, second):
        raise RegardError(
            f"model.first={config.first}, model.second={config.second}: this data is of {first} and {second}, in this order"
        )
    return data, config


def words_of(recipe: Recipe) -> dict[str, Tokenizer]:
    """The tokenizer of the ten words."""
    return {"source": trained(recipe, WORDS)}


def feed_of(
    recipe: Recipe, split: str, report: Report, tokenizer: Tokenizer | None = None
) -> DigitMatchFeed | SpokenPlaceFeed:
    """The pairs of a split, jittered in training alone. Without a tokenizer of the words, one is made."""
    data, config = checked(recipe)
    heard = sound_pools(data, report, rate=config.rate)[split]
    sounds, said = heard.inputs.at(range(len(heard.told))), torch.tensor([int(each) for each in heard.told])
    train = split == "train"
    jitter = data.jitter if train else SoundJitter()
    settings: dict[str, Any] = {
        "seed": {"train": recipe.seed, "valid": _VALID, "test": _TEST}[split],
        "rows": recipe.training.batch,
        "samples": {"train": data.samples, "valid": data.valid, "test": data.test}[split],
        "without": data.without,
    }
    if isinstance(data, PlaceData):
        tokenizer = tokenizer or words_of(recipe)["source"]
        return SpokenPlaceFeed(sounds, said, tokenizer=tokenizer, words=data.words, jitter=jitter, **settings)
    pixels, shown = _handwritten(split)
    return DigitMatchFeed(
        Senses(pixels=pixels, shown=shown, sounds=sounds, said=said),
        jitter=data.picture_jitter if train else Jitter(),
        sound_jitter=jitter,
        **settings,
    )


def _handwritten(split: str) -> tuple[Tensor, Tensor]:
    pixels, labels = digits()
    chosen = torch.tensor(getattr(digit_split(), split))
    return pixels[chosen], labels[chosen]


def _samples(feed: DigitMatchFeed | SpokenPlaceFeed) -> list[tuple[str, int]]:
    """The first few, in words, and the number of the label of each."""
    some = range(min(SAMPLES, feed.samples))
    if isinstance(feed, SpokenPlaceFeed):
        said, texts, places = feed.drawn(some)
        return [
            (f"a {int(feed.said[sound])} said, {text!r} written", place)
            for sound, text, place in zip(said, texts, places, strict=True)
        ]
    senses = feed.senses
    return [
        (f"a {int(senses.shown[picture])} in a picture, a {int(senses.said[sound])} said", label)
        for picture, sound, label in zip(*feed.drawn(some), strict=True)
    ]
