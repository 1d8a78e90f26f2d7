"""Classification: texts and their labels."""

from collections.abc import Mapping
from dataclasses import replace

from torch import nn

from regard.data.corpus import tokenize
from regard.data.feeds import LabelledFeed
from regard.data.records import read_labelled
from regard.data.text_lines import Report
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError
from regard.models.classifier import ClassifierConfig
from regard.runs.metrics import Metric
from regard.runs.recipe import Recipe
from regard.runs.settings import Files, LabelledData
from regard.runs.tasks.prepared import Prepared, all_located, counted, likelihood, packs, too_long
from regard.runs.tasks.translation import SAMPLES, SPLITS, split_of, trained

Samples = list[tuple[str, str]]


def prepare(
    recipe: Recipe, tokenizers: Mapping[str, Tokenizer], report: Report, labels: list[str] | None = None
) -> Prepared:
    """Texts read and tokenised; the labels are those of the training texts, in alphabetical order."""
    data, config = recipe.data, recipe.model
    if not isinstance(data, LabelledData) or not isinstance(config, ClassifierConfig):
        raise RegardError(
            f"data.kind {data.KIND} with model.kind {config.KIND}: a classifier reads labelled texts"
        )
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

    def validate(model: nn.Module) -> list[Metric]:
        return likelihood(model, feeds["valid"])

    def test(model: nn.Module) -> list[Metric]:
        return likelihood(model, feeds["test"])

    longest, train = recipe.tokens.longest, feeds["train"]
    unused = {split: feeds[split].left_out for split in ("valid", "test") if feeds[split].left_out}
    return Prepared(
        config=replace(config, vocabulary=tokenizers["source"].size, classes=len(labels)),
        train=feeds["train"],
        validate=validate,
        test=test,
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


def samples_of(data: LabelledData, report: Report) -> dict[str, Samples]:
    """The texts and labels of each split."""
    own = {"train": data.train, "valid": data.valid, "test": data.test}
    known = {files: read(data, files, report) for files in dict.fromkeys(own.values()) if files is not None}
    samples = {split: known[files] for split, files in own.items() if files is not None}
    for split, found in samples.items():
        if not found:
            raise RegardError(
                f"data.{split}: no text is left{' to train on' * (split == 'train')}{report.reasons}"
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
