"""Telling in words: what is in a picture, or what was said. Also the reader's task, whose strips are made."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from regard.data.augment import Jitter
from regard.data.batches import Batch, Feed, Images
from regard.data.corpus import tokenize
from regard.data.digits import SIDE, digit_split
from regard.data.media_feeds import CaptionFeed, TranscriptFeed
from regard.data.numbers import french
from regard.data.reader import WIDTH, Hand, ReaderFeed
from regard.data.text_lines import Report
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError
from regard.models.captioner import CaptionerConfig, RecurrentCaptionerConfig
from regard.models.transcriber import TranscriberConfig
from regard.runs.answering import answers
from regard.runs.metrics import Metric, transcription_metrics, translation_metrics
from regard.runs.recipe import Recipe
from regard.runs.settings import Decoding, ImageData, SoundData, SpokenData, StripData
from regard.runs.tasks import pictures, sounds
from regard.runs.tasks.pools import Pool, prefetched
from regard.runs.tasks.prepared import Prepared, likelihood, too_long
from regard.runs.tasks.translation import SAMPLES, trained

ROWS = 64  # answered together
_NUMBERS = 20_000  # whose words a tokenizer is trained on
_VALID, _TEST = 1_000_001, 1_000_002  # seeds that no training has
_SIDES = re.compile(r"\b(left|right|links|rechts|gauche|droite)\b", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Asked:
    """Some inputs as a batch, what to call them, and what should be said of each."""

    source: Batch
    names: Sequence[str]
    texts: Sequence[str]


Questions = Callable[[], Iterator[Asked]]  # read anew at every call, so that nothing large is held


@dataclass(frozen=True, eq=False)
class Split:
    """A part of the data: to be learned from, and to be asked about."""

    texts: Callable[[], Iterator[str]]
    feed: Callable[[Tokenizer], tuple[Feed[Any], int]]  # and how many are left out of it, as too long
    questions: Questions
    count: int
    samples: Sequence[tuple[str, str]]  # the first few


def prepare(recipe: Recipe, tokenizers: Mapping[str, Tokenizer], report: Report) -> Prepared:
    """Inputs read, texts tokenised; the tokenizer is trained unless it is given."""
    if recipe.training.best in ("bleu", "chrf", "wer", "cer", "exact") and not recipe.training.decode:
        raise RegardError(
            f"training.best={recipe.training.best}: nothing is told at an evaluation; set training.decode, such as 200"
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
            found += metrics(tell(model, tokenizer, greedily, questions), recipe)
        return found

    def test(model: nn.Module) -> list[Metric]:
        told = tell(model, tokenizer, recipe.decoding, splits["test"].questions())
        return metrics(told, recipe)

    return Prepared(
        config=_fitted(recipe, tokenizer.size),
        train=train,
        validate=validate,
        test=test,
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


def tell(
    model: nn.Module, tokenizer: Tokenizer, decoding: Decoding, questions: Iterator[Asked]
) -> list[tuple[str, str, str]]:
    """The name of every input, what should be said of it, and what the model says."""
    device = next(model.parameters()).device
    told = []
    for asked in questions:
        found = answers(model, asked.source.to(device), tokenizer, decoding)
        told += [
            (name, text, best[0].text)
            for name, text, best in zip(asked.names, asked.texts, found, strict=True)
        ]
    return told


def metrics(told: Sequence[tuple[str, str, str]], recipe: Recipe) -> list[Metric]:
    """Error rates of what was heard; BLEU and chrF of what was seen; exact matches of either."""
    _, references, said = zip(*told, strict=True)
    if isinstance(recipe.model, TranscriberConfig):
        return transcription_metrics(said, references)
    return translation_metrics(said, references, tokenize=recipe.decoding.bleu)


def splits_of(recipe: Recipe, report: Report) -> dict[str, Split]:
    """The data of a recipe whose model tells."""
    data, config = recipe.data, recipe.model
    if isinstance(config, CaptionerConfig | RecurrentCaptionerConfig):
        if isinstance(data, StripData):
            return _strips(recipe, data)
        if isinstance(data, ImageData):
            pools: dict[str, Pool[Any]] = {**pictures.pools_of(data, report, told="caption")}
            return {split: _split(recipe, pool, split, CaptionFeed) for split, pool in pools.items()}
    if isinstance(config, TranscriberConfig) and isinstance(data, SoundData | SpokenData):
        pools = {**sounds.pools_of(data, report, rate=config.rate, told="text")}
        return {split: _split(recipe, pool, split, TranscriptFeed) for split, pool in pools.items()}
    raise RegardError(
        f"data.kind {data.KIND} with model.kind {config.KIND}: a captioner tells of pictures (images, strips), a "
        "transcriber of recordings (sounds, spoken-digits)"
    )


def _split(recipe: Recipe, pool: Pool[Any], split: str, kind: Any) -> Split:
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
        made = kind(used.inputs, texts, rows=recipe.training.batch, seed=recipe.seed, jitter=jitter)
        return prefetched(made, used.inputs), len(pool.told) - len(used.told)

    def questions() -> Iterator[Asked]:
        for start in range(0, len(pool.told), ROWS):
            some = slice(start, min(start + ROWS, len(pool.told)))
            yield Asked(pool.batch(range(some.start, some.stop)), pool.names[some], pool.told[some])

    return Split(lambda: iter(pool.told), feed, questions, len(pool.told), pool.samples())


def _strips(recipe: Recipe, data: StripData) -> dict[str, Split]:
    """Strips written with digits of each split. What is validated and tested on is the same for all seeds."""
    parts = digit_split()
    return {
        "train": _strip_split(recipe, Hand(parts.train), data.train, recipe.seed, data.jitter),
        "valid": _strip_split(recipe, Hand(parts.valid), data.valid, _VALID, None),
        "test": _strip_split(recipe, Hand(parts.test), data.test, _TEST, None),
    }


def _strip_split(recipe: Recipe, hand: Hand, count: int, seed: int, jitter: Jitter | None) -> Split:
    def texts() -> Iterator[str]:
        return (french(number) for number in hand.strips(range(_NUMBERS), seed=seed).numbers)

    def feed(tokenizer: Tokenizer) -> tuple[Feed[Any], int]:
        rows = recipe.training.batch
        return ReaderFeed(hand, tokenizer, seed=seed, rows=rows, samples=count, jitter=jitter), 0

    def questions() -> Iterator[Asked]:
        for start in range(0, count, ROWS):
            strips = hand.strips(range(start, min(start + ROWS, count)), seed=seed)
            numbers = strips.numbers
            yield Asked(Images(strips.pixels), [*map(str, numbers)], [*map(french, numbers)])

    first = hand.strips(range(min(SAMPLES, count)), seed=seed).numbers
    return Split(texts, feed, questions, count, [(f"strip {number}", french(number)) for number in first])


def _mirrored(recipe: Recipe, split: Split) -> list[str]:
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


def _first(questions: Iterator[Asked], count: int) -> Iterator[Asked]:
    """No more than so many rows, to the next batch."""
    for asked in questions:
        yield asked
        count -= len(asked.texts)
        if count <= 0:
            return


def _fitted(
    recipe: Recipe, vocabulary: int
) -> CaptionerConfig | RecurrentCaptionerConfig | TranscriberConfig:
    data, config = recipe.data, recipe.model
    match config:
        case TranscriberConfig():
            return replace(config, target_vocabulary=vocabulary)
        case CaptionerConfig() | RecurrentCaptionerConfig():
            size, channels = (data.size, data.channels) if isinstance(data, ImageData) else ((SIDE, WIDTH), 1)
            return replace(config, target_vocabulary=vocabulary, image_size=size, channels=channels)
        case _:
            raise RegardError(f"model.kind: {config.KIND} does not tell in words")
