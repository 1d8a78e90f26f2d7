"""Language modelling: text to continue, as one stream or one text a line."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
from torch import nn

from regard.data.feeds import StreamFeed, TextFeed
from regard.data.lines import Report, read_all
from regard.data.pairs import read_text
from regard.data.tokenized import tokenize
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError
from regard.models.language import LanguageConfig
from regard.runs.metrics import Metric
from regard.runs.recipe import Recipe
from regard.runs.settings import TextData
from regard.runs.tasks.prepared import Prepared, likelihood, located
from regard.runs.tasks.translation import trained


def prepare(recipe: Recipe, tokenizers: Mapping[str, Tokenizer], report: Report) -> Prepared:
    """Text read and tokenised; the end of the training text is held out where no other is given."""
    data, config = recipe.data, recipe.model
    if not isinstance(data, TextData) or not isinstance(config, LanguageConfig):
        raise RegardError(f"data.kind {data.KIND} with model.kind {config.KIND}: a language model reads text")
    texts = texts_of(data, report)
    tokenizers = dict(tokenizers) or {"source": trained(recipe, _pieces(texts["train"]))}
    tokenizer = tokenizers["source"]
    feeds = {split: feed_of(recipe, texts[split], tokenizer, shift=split == "train") for split in texts}

    def validate(model: nn.Module) -> list[Metric]:
        return likelihood(model, feeds["valid"])

    def test(model: nn.Module) -> list[Metric]:
        return likelihood(model, feeds["test"])

    return Prepared(
        config=replace(config, vocabulary=tokenizer.size),
        train=feeds["train"],
        validate=validate,
        test=test,
        tokenizers=tokenizers,
        facts={
            "training characters": sum(map(len, texts["train"])),
            "validation characters": sum(map(len, texts["valid"])),
            "vocabulary": tokenizer.size,
        },
    )


def texts_of(data: TextData, report: Report) -> dict[str, list[str]]:
    """Each split as a list of texts; a stream is a list of one."""
    own = {"train": data.train, "valid": data.valid, "test": data.test}
    texts = {split: read(data, path, report) for split, path in own.items() if path is not None}
    if "valid" not in texts:
        texts["train"], texts["valid"] = _cut(texts["train"], data.held_out)
    return {"test": texts["valid"], **texts}


def read(data: TextData, path: str, report: Report) -> list[str]:
    """The texts of a file."""
    path = located(data.folder, path)
    if data.unit == "stream":
        return [read_all(path, policy=data.policy, report=report, limit=data.longest)]
    lines = read_text(path, policy=data.policy, report=report, limit=data.longest)
    return [line for line in lines if line]


def feed_of(recipe: Recipe, texts: list[str], tokenizer: Tokenizer, *, shift: bool) -> StreamFeed | TextFeed:
    """Texts as a feed."""
    data, budget, seed = recipe.data, recipe.training.batch, recipe.seed
    if isinstance(data, TextData) and data.unit == "stream":
        stream = tokenize(_pieces(texts), tokenizer).tokens
        if len(stream) < 2:
            raise RegardError("data: a text of fewer than two tokens teaches nothing; is the file empty?")
        return StreamFeed(np.asarray(stream), context=data.context, budget=budget, seed=seed, shift=shift)
    corpus = tokenize(texts, tokenizer)
    return TextFeed(corpus, budget=budget, seed=seed, longest=recipe.tokens.longest)


def _pieces(texts: list[str], *, least: int = 10_000) -> Iterator[str]:
    """Long texts cut before a word, so that a tokenizer never holds the tokens of all of one at once."""
    for text in texts:
        start = 0
        while start < len(text):
            end = text.find(" ", start + least)
            end = len(text) if end < 0 else end
            yield text[start:end]
            start = end


def _cut(texts: list[str], share: float) -> tuple[list[str], list[str]]:
    """The beginning, and the last share: of the characters of one text, or of several texts."""
    if not 0 < share < 1:
        raise RegardError(
            f"data.held_out={share}: without data.valid, a share between 0 and 1 is kept for it"
        )
    if len(texts) == 1:
        at = round(len(texts[0]) * (1 - share))
        return [texts[0][:at]], [texts[0][at:]]
    at = min(max(1, round(len(texts) * (1 - share))), len(texts) - 1)
    return texts[:at], texts[at:]
