"""Language modelling: text to continue, as one stream or one text a line."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from torch import nn

from regard.data.feeds import TextFeed, tokenize
from regard.data.records import read_text
from regard.data.stream_feed import StreamFeed
from regard.data.text_lines import Report, matching, read_lines
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError
from regard.runs.answering import TextGenerator
from regard.runs.recipe import Recipe
from regard.runs.results import Metric
from regard.runs.settings import Files, TextData
from regard.runs.tasks.prepared import (
    AnsweredSample,
    Prepared,
    all_located,
    likelihood,
    packs,
    spread,
    too_long,
)
from regard.runs.tasks.translation import SAMPLES, trained

Texts = Callable[[], Iterator[str]]
PIECE = 10_000  # letters tokenised at once
SHOWN = 24  # tokens that a line of the validation text is continued by, at every evaluation


def prepare(
    recipe: Recipe, report: Report, tokenizers: Mapping[str, Tokenizer], labels: list[str] | None
) -> Prepared:
    """Text read and tokenised; the end of the training text is held out where no other is given."""
    data, config = recipe.data, recipe.model
    if not isinstance(data, TextData):
        raise RegardError(f"data.kind {data.KIND} with model.kind {config.KIND}: a language model reads text")
    texts = texts_of(data, report)
    samples = [*islice(texts["train"](), SAMPLES if data.unit == "lines" else 1)]
    if not samples:
        raise RegardError(f"data.train: no text to train on; is the file empty?{report.reasons}")
    tokenizers = dict(tokenizers) or {"source": trained(recipe, texts["train"]())}
    tokenizer = tokenizers["source"]
    feeds = {split: feed_of(recipe, texts[split], tokenizer, shift=split == "train") for split in texts}

    shown = spread(_halves(texts["valid"]))

    def answer(model: nn.Module) -> list[AnsweredSample]:
        writer = TextGenerator(model, tokenizers, lines=data.unit == "lines")
        found = writer.generate([begun for begun, _ in shown], tokens=SHOWN, temperature=0.0)
        return [AnsweredSample(begun, text, rest) for (begun, rest), text in zip(shown, found, strict=True)]

    counts: dict[str, object] = {}
    train = feeds["train"]
    if isinstance(train, TextFeed):
        counts = {"training texts": len(train.texts) - train.left_out}
        counts |= too_long(train.left_out, recipe.tokens.longest, len(train.texts))

    return Prepared(
        config=replace(config, vocabulary=tokenizer.size),
        train=feeds["train"],
        validate=partial(likelihood, feed=feeds["valid"]),
        test=partial(likelihood, feed=feeds["test"]),
        answer=answer,
        tokenizers=tokenizers,
        facts={
            **counts,
            "training characters": _letters(texts["train"]),
            "validation characters": _letters(texts["valid"]),
            "vocabulary": tokenizer.size,
        },
        samples=[(text,) for text in samples],
    )


def _halves(texts: Texts) -> Iterator[tuple[str, str]]:
    """Lines of some words, each in two halves."""
    for line in (line for text in texts() for line in text.splitlines()):
        words = line.split()
        if len(words) >= 4:
            yield " ".join(words[: len(words) // 2]), " ".join(words[len(words) // 2 :])


def evaluate(loaded: Any, recipe: Recipe, report: Report, answers: Path | None) -> list[Metric]:
    """Loss, perplexity and accuracy on the test text."""
    if not isinstance(recipe.data, TextData):
        raise RegardError(f"data.kind {recipe.data.KIND}: a language model reads text")
    texts = texts_of(recipe.data, report)["test"]
    return likelihood(loaded.model, feed_of(recipe, texts, loaded.tokenizer, shift=False))


def texts_of(data: TextData, report: Report) -> dict[str, Texts]:
    """Each split: texts read anew at every call, so that nothing large is held. A stream comes in pieces."""
    own = {"train": data.train, "valid": data.valid, "test": data.test}
    given = {split: path for split, path in own.items() if path is not None}
    for path in dict.fromkeys(
        given.values()
    ):  # once to see what is wrong with it, which is then not said again
        for _ in read(data, path, report=report):
            pass
    texts: dict[str, Texts] = {split: partial(read, data, path) for split, path in given.items()}
    if "valid" not in texts:
        texts["train"], texts["valid"] = _parted(texts["train"], data)
    return {"test": texts["valid"], **texts}


def read(data: TextData, files: Files, *, report: Report | None = None) -> Iterator[str]:
    """The texts of files, or the pieces of their stream: whole lines, some thousand letters at a time."""
    places = all_located(data.folder, files)
    if data.unit == "lines":
        yield from read_text(
            places, column=data.column, policy=data.policy, report=report, limit=data.longest
        )
        return
    waiting: list[str] = []
    size = 0
    for path in matching(places):
        for line in read_lines(path, policy=data.policy, report=report, limit=data.longest):
            waiting.append(line + "\n")
            size += len(waiting[-1])
            if size >= PIECE:
                yield "".join(waiting)
                waiting, size = [], 0
    if waiting:
        yield "".join(waiting)


def feed_of(recipe: Recipe, texts: Texts, tokenizer: Tokenizer, *, shift: bool) -> StreamFeed | TextFeed:
    """Texts as a feed."""
    data, budget, seed = recipe.data, recipe.training.batch, recipe.seed
    packed = shift and packs(recipe)  # what is trained on
    corpus = tokenize(texts(), tokenizer)
    if isinstance(data, TextData) and data.unit == "stream":
        if len(corpus.tokens) < 2:
            raise RegardError("data: a text of fewer than two tokens teaches nothing; is the file empty?")
        return StreamFeed(
            corpus.tokens, context=data.context, budget=budget, seed=seed, shift=shift, packed=packed
        )
    return TextFeed(corpus, budget=budget, seed=seed, longest=recipe.tokens.longest, packed=packed)


def _parted(texts: Texts, data: TextData) -> tuple[Texts, Texts]:
    """The beginning, and the last share: of the letters of a stream, or of the texts."""
    if not 0 < data.held_out < 1:
        raise RegardError(
            f"data.held_out={data.held_out}: without data.valid, a share between 0 and 1 is kept for it"
        )
    if data.unit == "lines":
        count = sum(1 for _ in texts())
        at = min(max(1, round(count * (1 - data.held_out))), max(count - 1, 1))
        return lambda: islice(texts(), at), lambda: islice(texts(), at, None)
    at = round(_letters(texts) * (1 - data.held_out))
    return lambda: _between(texts(), 0, at), lambda: _between(texts(), at, None)


def _between(pieces: Iterator[str], first: int, last: int | None) -> Iterator[str]:
    """The part of a stream from one letter to before another."""
    place = 0
    for piece in pieces:
        some = piece[max(first - place, 0) : None if last is None else max(last - place, 0)]
        place += len(piece)
        if some:
            yield some


def _letters(texts: Texts) -> int:
    return sum(map(len, texts()))
