"""Classification: texts, pictures or recordings, and their classes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from regard.data.batches import Feed
from regard.data.digits import SIDE
from regard.data.feeds import LabelledFeed, tokenize
from regard.data.media_feeds import MediaLabelFeed
from regard.data.records import read_labelled
from regard.data.text_lines import Report
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError
from regard.runs.answering import Labeller
from regard.runs.inputs import TextReader
from regard.runs.recipe import Recipe
from regard.runs.results import Metric
from regard.runs.settings import (
    DigitData,
    Files,
    ImageData,
    LabelledData,
    PlaceData,
    SameData,
    SoundData,
    SpokenData,
)
from regard.runs.tasks.media import Pool, picture_pools, prefetched, sound_pools
from regard.runs.tasks.prepared import (
    AnsweredSample,
    Prepared,
    all_located,
    counted,
    likelihood,
    packs,
    spread,
    too_long,
)
from regard.runs.tasks.translation import SAMPLES, SPLITS, split_of, trained

Samples = list[tuple[str, str]]


def prepare(
    recipe: Recipe, report: Report, tokenizers: Mapping[str, Tokenizer], labels: list[str] | None
) -> Prepared:
    """Samples read; the labels are those of the training samples, in alphabetical order."""
    if recipe.kind.reads == ("text",):
        return _prepare_texts(recipe, report, tokenizers, labels)
    return _prepare_media(recipe, report, labels)


def evaluate(loaded: Any, recipe: Recipe, report: Report, answers: Path | None) -> list[Metric]:
    """Loss and accuracy on the test samples."""
    feed: Feed[Any]
    if recipe.kind.reads == ("text",):
        samples = samples_of(_labelled(recipe), report)["test"]
        feed = feed_of(recipe, samples, loaded.reader.tokenizer, loaded.labels)
    else:
        feed = media_feed_of(recipe, pools_of(recipe, report)["test"], loaded.labels, "test")
    return likelihood(loaded.model, feed)


def _prepare_texts(
    recipe: Recipe, report: Report, tokenizers: Mapping[str, Tokenizer], labels: list[str] | None
) -> Prepared:
    data, config = _labelled(recipe), recipe.model
    samples = samples_of(data, report)
    labels = labels or sorted({label for _, label in samples["train"]})
    if len(labels) < 2:
        raise RegardError(f"data.train: all texts have the label {labels[0]!r}; are text and label swapped?")
    tokenizers = dict(tokenizers) or {"source": trained(recipe, (text for text, _ in samples["train"]))}
    feeds = {
        split: feed_of(
            recipe,
            samples[split],
            tokenizers["source"],
            labels,
            packed=split == "train" and packs(recipe),
        )
        for split in SPLITS
    }

    shown = spread(samples["valid"])

    def answer(model: nn.Module) -> list[AnsweredSample]:
        sorter = Labeller(model, TextReader(tokenizers["source"]), labels)
        found = sorter.classify([text for text, _ in shown])
        return [AnsweredSample(text, said, label) for (text, label), said in zip(shown, found, strict=True)]

    longest, train = recipe.tokens.longest, feeds["train"]
    unused = {split: feeds[split].left_out for split in ("valid", "test") if feeds[split].left_out}
    return Prepared(
        config=replace(config, vocabulary=tokenizers["source"].size, classes=len(labels)),
        train=feeds["train"],
        validate=partial(likelihood, feed=feeds["valid"]),
        test=partial(likelihood, feed=feeds["test"]),
        answer=answer,
        tokenizers=tokenizers,
        labels=labels,
        facts={
            "training texts": len(samples["train"]) - train.left_out,
            **too_long(train.left_out, longest, len(samples["train"])),
            "validation texts": len(samples["valid"]) - feeds["valid"].left_out,
            "test texts": len(samples["test"]) - feeds["test"].left_out,
            **{
                f"left out of {split}, longer than {longest} tokens": count for split, count in unused.items()
            },
            "classes": len(labels),
        },
        classes=counted(label for _, label in samples["train"]),
        samples=samples["train"][:SAMPLES],
    )


def _labelled(recipe: Recipe) -> LabelledData:
    data = recipe.data
    if not isinstance(data, LabelledData):
        raise RegardError(
            f"data.kind {data.KIND} with model.kind {recipe.kind.name}: a classifier reads labelled texts"
        )
    return data


def samples_of(data: LabelledData, report: Report) -> dict[str, Samples]:
    """The texts and labels of each split."""
    own = {"train": data.train, "valid": data.valid, "test": data.test}
    known = {files: read(data, files, report) for files in dict.fromkeys(own.values()) if files is not None}
    samples = {split: known[files] for split, files in own.items() if files is not None}
    for split, found in samples.items():
        if not found:
            raise RegardError(
                f"data.{split}: no text is left{' to train on' * (split == 'train')}{report.reasons or '; is the file empty?'}"
            )
    held_out = [split for split in ("valid", "test") if split not in samples]
    for split in held_out:
        samples[split] = [
            each for each in samples["train"] if split_of(each[0], data.held_out, held_out) == split
        ]
    samples["train"] = [
        each for each in samples["train"] if split_of(each[0], data.held_out, held_out) == "train"
    ]
    for split in held_out:
        if not samples[split]:
            raise RegardError(
                f"data.{split} is not given, and {data.held_out:.0%} of {len(samples['train'])} texts leave none "
                f"for it: give data.{split}, or a larger data.held_out"
            )
    return samples


def read(data: LabelledData, files: Files, report: Report) -> Samples:
    """The texts and labels of files."""
    return list(
        read_labelled(
            all_located(data.folder, files),
            columns=data.columns,
            policy=data.policy,
            report=report,
            limit=data.longest,
        )
    )


def feed_of(
    recipe: Recipe, samples: Samples, tokenizer: Tokenizer, labels: list[str], *, packed: bool = False
) -> LabelledFeed:
    """Texts and the numbers of their labels."""
    numbers = {label: number for number, label in enumerate(labels)}
    unknown = next((label for _, label in samples if label not in numbers), None)
    if unknown is not None:
        raise RegardError(
            f"the label {unknown!r} does not occur in the training texts; there are {', '.join(labels)}"
        )
    corpus = tokenize((text for text, _ in samples), tokenizer)
    chosen = [numbers[label] for _, label in samples]
    return LabelledFeed(
        corpus,
        chosen,
        budget=recipe.training.batch,
        seed=recipe.seed,
        longest=recipe.tokens.longest,
        packed=packed,
    )


def _prepare_media(recipe: Recipe, report: Report, labels: list[str] | None) -> Prepared:
    pools = pools_of(recipe, report)
    labels = labels or sorted(set(pools["train"].told))
    if len(labels) < 2:
        raise RegardError(f"data.train: all samples are of the class {labels[0]!r}")
    feeds = {split: media_feed_of(recipe, pools[split], labels, split) for split in SPLITS}

    return Prepared(
        config=_fitted(recipe, len(labels)),
        train=feeds["train"],
        validate=partial(likelihood, feed=feeds["valid"]),
        test=partial(likelihood, feed=feeds["test"]),
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


def pools_of(recipe: Recipe, report: Report) -> dict[str, Pool]:
    """What is to be sorted, in its splits."""
    data, reads = recipe.data, recipe.kind.reads
    if isinstance(data, DigitData | ImageData) and reads == ("picture",):
        return picture_pools(data, report)
    if (
        isinstance(data, SoundData | SpokenData)
        and not isinstance(data, PlaceData | SameData)
        and reads == ("sound",)
    ):
        return sound_pools(data, report, rate=recipe.model.rate)
    raise RegardError(
        f"data.kind {data.KIND} with model.kind {recipe.kind.name}: it reads a {' and a '.join(reads)}; pictures are in "
        "digits and images, recordings in sounds and spoken-digits"
    )


def media_feed_of(recipe: Recipe, pool: Pool, labels: Sequence[str], split: str) -> Feed[Any]:
    """Samples and the numbers of their classes, jittered in training alone. Those on disk are read ahead."""
    data: Any = recipe.data
    feed = MediaLabelFeed(
        pool.inputs,
        pool.numbers(labels),
        rows=recipe.training.batch,
        seed=recipe.seed,
        jitter=data.jitter if split == "train" else None,
    )
    return prefetched(feed, pool.inputs)


def _fitted(recipe: Recipe, classes: int) -> Any:
    data, config = recipe.data, recipe.model
    if recipe.kind.reads == ("sound",):
        return replace(config, classes=classes)
    size, channels = (data.size, data.channels) if isinstance(data, ImageData) else ((SIDE, SIDE), 1)
    return replace(config, classes=classes, image_size=size, channels=channels)
