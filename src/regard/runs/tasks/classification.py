"""Classification: texts and their labels."""

from collections.abc import Mapping
from dataclasses import replace

from torch import nn

from regard.data.feeds import LabelledFeed
from regard.data.lines import Report
from regard.data.pairs import read_labelled
from regard.data.tokenized import tokenize
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError
from regard.models.classifier import ClassifierConfig
from regard.runs.metrics import Metric
from regard.runs.recipe import Recipe
from regard.runs.settings import LabelledData
from regard.runs.tasks.prepared import Prepared, likelihood, located, packs
from regard.runs.tasks.translation import SPLITS, split_of, trained

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

    return Prepared(
        config=replace(config, vocabulary=tokenizers["source"].size, classes=len(labels)),
        train=feeds["train"],
        validate=validate,
        test=test,
        tokenizers=tokenizers,
        labels=labels,
        facts={"training texts": len(samples["train"]), "classes": len(labels)},
    )


def samples_of(data: LabelledData, report: Report) -> dict[str, Samples]:
    """The texts and labels of each split."""
    own = {"train": data.train, "valid": data.valid, "test": data.test}
    samples = {split: read(data, path, report) for split, path in own.items() if path is not None}
    if not samples["train"]:
        raise RegardError("data.train: no text is left to train on")
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


def read(data: LabelledData, path: str, report: Report) -> Samples:
    """The texts and labels of a file."""
    return list(
        read_labelled(
            located(data.folder, path),
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
