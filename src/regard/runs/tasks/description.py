"""Describing media in text: captions of pictures, transcripts of recordings. Strips of digits are made, not read."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from regard.data.augment import Jitter
from regard.data.batches import Batch, Feed, Images
from regard.data.digits import SIDE, digit_split
from regard.data.feeds import tokenize
from regard.data.media_feeds import MediaTextFeed
from regard.data.numbers import french
from regard.data.reader import WIDTH, Hand, ReaderFeed
from regard.data.text_lines import Report
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError
from regard.models.optimise import device_of
from regard.runs.answering import answers as decoded
from regard.runs.recipe import Recipe
from regard.runs.results import Metric, transcription_metrics, translation_metrics
from regard.runs.settings import Decoding, ImageData, PlaceData, SameData, SoundData, SpokenData, StripData
from regard.runs.tasks.media import Pool, picture_pools, prefetched, sound_pools
from regard.runs.tasks.prepared import (
    SAMPLES_ANSWERED,
    AnsweredSample,
    Prepared,
    likelihood,
    too_long,
    write_answers,
)
from regard.runs.tasks.translation import SAMPLES, trained

ROWS = 64  # answered together
_NUMBERS = 20_000  # whose words a tokenizer is trained on
_VALID, _TEST = 1_000_001, 1_000_002  # seeds that no training has
_SIDES = re.compile(r"\b(left|right|links|rechts|gauche|droite)\b", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class DescribedBatch:
    """Some inputs as a batch, what to call them, and what should be said of each."""

    source: Batch
    names: Sequence[str]
    texts: Sequence[str]


Questions = Callable[[], Iterator[DescribedBatch]]  # read anew at every call, so that nothing large is held


@dataclass(frozen=True, eq=False)
class DescribedSplit:
    """A part of the data: for training, and for evaluation."""

    texts: Callable[[], Iterator[str]]
    feed: Callable[[Tokenizer], tuple[Feed[Any], int]]  # and how many are left out of it, as too long
    questions: Questions
    count: int
    samples: Sequence[tuple[str, str]]  # the first few


def prepare(
    recipe: Recipe, report: Report, tokenizers: Mapping[str, Tokenizer], labels: list[str] | None
) -> Prepared:
    """Inputs read, texts tokenised; the tokenizer is trained unless it is given."""
    if recipe.training.best in ("bleu", "chrf", "wer", "cer", "exact") and not recipe.training.decode:
        raise RegardError(
            f"training.best={recipe.training.best}: nothing is decoded at an evaluation; set training.decode, such as 200"
        )
    splits = splits_of(recipe, report)
    tokenizers = dict(tokenizers) or {"source": trained(recipe, splits["train"].texts())}
    tokenizer = tokenizers["source"]
    (train, left_out), (valid, _) = (splits[split].feed(tokenizer) for split in ("train", "valid"))
    count = splits["train"].count

    def validate(model: nn.Module) -> list[Metric]:
        found = likelihood(model, valid)
        if recipe.training.decode:
            greedily = replace(recipe.decoding, beam=1)
            questions = _first(splits["valid"].questions(), recipe.training.decode)
            found += metrics(describe(model, tokenizer, greedily, questions), recipe)
        return found

    def answer(model: nn.Module) -> list[AnsweredSample]:
        questions = _first(splits["valid"].questions(), SAMPLES_ANSWERED)
        told = describe(model, tokenizer, replace(recipe.decoding, beam=1), questions)
        return [AnsweredSample(name, text, reference) for name, reference, text in told]

    def test(model: nn.Module) -> list[Metric]:
        told = describe(model, tokenizer, recipe.decoding, splits["test"].questions())
        return metrics(told, recipe)

    return Prepared(
        config=_fitted(recipe, tokenizer.size),
        train=train,
        validate=validate,
        test=test,
        answer=answer,
        tokenizers=tokenizers,
        facts={
            "training samples": count - left_out,
            **too_long(left_out, recipe.tokens.longest, count),
            "validation samples": splits["valid"].count,
            "test samples": splits["test"].count,
            "vocabulary": tokenizer.size,
        },
        samples=splits["train"].samples,
        notices=_mirrored(recipe, splits["train"]),
    )


def evaluate(loaded: Any, recipe: Recipe, report: Report, answers: Path | None) -> list[Metric]:
    """Error rates, or BLEU and chrF, on the test samples."""
    questions = splits_of(recipe, report)["test"].questions()
    told = describe(loaded.model, loaded.tokenizer, loaded.decoding, questions)
    if answers is not None:
        write_answers(answers, "answer", told)
    return metrics(told, replace(recipe, decoding=loaded.decoding))


def describe(
    model: nn.Module, tokenizer: Tokenizer, decoding: Decoding, questions: Iterator[DescribedBatch]
) -> list[tuple[str, str, str]]:
    """The name of every input, what should be said of it, and what the model says."""
    device = device_of(model)
    told = []
    for asked in questions:
        found = decoded(model, asked.source.to(device), tokenizer, decoding)
        told += [
            (name, text, best[0].text)
            for name, text, best in zip(asked.names, asked.texts, found, strict=True)
        ]
    return told


def metrics(told: Sequence[tuple[str, str, str]], recipe: Recipe) -> list[Metric]:
    """Error rates of transcripts; BLEU and chrF of captions; exact matches of either."""
    _, references, said = zip(*told, strict=True)
    if recipe.kind.reads == ("sound",):
        return transcription_metrics(said, references)
    return translation_metrics(said, references, tokenize=recipe.decoding.bleu)


def splits_of(recipe: Recipe, report: Report) -> dict[str, DescribedSplit]:
    """The data of a recipe whose model describes."""
    data, reads = recipe.data, recipe.kind.reads
    if reads == ("picture",) and isinstance(data, StripData):
        return _strips(recipe, data)
    if reads == ("picture",) and isinstance(data, ImageData):
        pools = picture_pools(data, report, told="caption")
        return {split: _split(recipe, pool, split) for split, pool in pools.items()}
    if (
        reads == ("sound",)
        and isinstance(data, SoundData | SpokenData)
        and not isinstance(data, PlaceData | SameData)
    ):
        pools = sound_pools(data, report, rate=recipe.model.rate, told="text")
        return {split: _split(recipe, pool, split) for split, pool in pools.items()}
    raise RegardError(
        f"data.kind {data.KIND} with model.kind {recipe.kind.name}: a captioner describes pictures (images, strips), a "
        "transcriber recordings (sounds, spoken-digits)"
    )


def _split(recipe: Recipe, pool: Pool, split: str) -> DescribedSplit:
    """The samples of a pool; those with very long texts are left out of training."""
    data: Any = recipe.data

    def feed(tokenizer: Tokenizer) -> tuple[Feed[Any], int]:
        used, jitter = pool, None
        if split == "train":
            lengths = tokenize(pool.told, tokenizer).lengths.tolist()
            used = pool.some([n for n, length in enumerate(lengths) if length < recipe.tokens.longest])
            too_long(len(pool.told) - len(used.told), recipe.tokens.longest, len(pool.told))
            jitter = data.jitter
        texts = tokenize(used.told, tokenizer)
        made = MediaTextFeed(used.inputs, texts, rows=recipe.training.batch, seed=recipe.seed, jitter=jitter)
        return prefetched(made, used.inputs), len(pool.told) - len(used.told)

    def questions() -> Iterator[DescribedBatch]:
        for start in range(0, len(pool.told), ROWS):
            some = slice(start, min(start + ROWS, len(pool.told)))
            yield DescribedBatch(pool.batch(range(some.start, some.stop)), pool.names[some], pool.told[some])

    return DescribedSplit(lambda: iter(pool.told), feed, questions, len(pool.told), pool.samples())


def _strips(recipe: Recipe, data: StripData) -> dict[str, DescribedSplit]:
    """Strips written with digits of each split. What is validated and tested on is the same for all seeds."""
    parts = digit_split()
    return {
        "train": _strip_split(recipe, Hand(parts.train), data.train, recipe.seed, data.jitter),
        "valid": _strip_split(recipe, Hand(parts.valid), data.valid, _VALID, None),
        "test": _strip_split(recipe, Hand(parts.test), data.test, _TEST, None),
    }


def _strip_split(recipe: Recipe, hand: Hand, count: int, seed: int, jitter: Jitter | None) -> DescribedSplit:
    def texts() -> Iterator[str]:
        return (french(number) for number in hand.strips(range(_NUMBERS), seed=seed).numbers)

    def feed(tokenizer: Tokenizer) -> tuple[Feed[Any], int]:
        rows = recipe.training.batch
        return ReaderFeed(hand, tokenizer, seed=seed, rows=rows, samples=count, jitter=jitter), 0

    def questions() -> Iterator[DescribedBatch]:
        for start in range(0, count, ROWS):
            strips = hand.strips(range(start, min(start + ROWS, count)), seed=seed)
            numbers = strips.numbers
            yield DescribedBatch(Images(strips.pixels), [*map(str, numbers)], [*map(french, numbers)])

    first = hand.strips(range(min(SAMPLES, count)), seed=seed).numbers
    return DescribedSplit(
        texts, feed, questions, count, [(f"strip {number}", french(number)) for number in first]
    )


def _mirrored(recipe: Recipe, split: DescribedSplit) -> list[str]:
    """A warning where pictures are flipped and their captions say which side is which."""
    jitter = getattr(recipe.data, "jitter", None)
    if not isinstance(recipe.data, ImageData) or not isinstance(jitter, Jitter) or not jitter.flip:
        return []
    count = sum(bool(_SIDES.search(text)) for text in split.texts())
    if not count:
        return []
    return [
        f"{count:,} captions say left or right, and data.jitter.flip turns every other picture round: they will be wrong; "
        "set it to false"
    ]


def _first(questions: Iterator[DescribedBatch], count: int) -> Iterator[DescribedBatch]:
    """No more than so many rows, to the next batch."""
    for asked in questions:
        yield asked
        count -= len(asked.texts)
        if count <= 0:
            return


def _fitted(recipe: Recipe, vocabulary: int) -> Any:
    data, config = recipe.data, recipe.model
    if recipe.kind.reads == ("sound",):
        return replace(config, target_vocabulary=vocabulary)
    size, channels = (data.size, data.channels) if isinstance(data, ImageData) else ((SIDE, WIDTH), 1)
    return replace(config, target_vocabulary=vocabulary, image_size=size, channels=channels)
