"""Translation: pairs of texts, from files or made from numbers, for the models that read and then write."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from torch import nn

from regard.data.feeds import PairFeed, tokenize_pairs
from regard.data.made_pairs import hurried_sources, join_pairs
from regard.data.numbers import Part, number_pairs
from regard.data.records import Place, read_pairs
from regard.data.text_lines import Parallel, Report
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError
from regard.runs.answering import Translator
from regard.runs.recipe import Recipe
from regard.runs.results import Metric, translation_metrics
from regard.runs.settings import NumberData, PairData
from regard.runs.tasks.prepared import (
    AnsweredSample,
    Prepared,
    all_located,
    likelihood,
    located,
    packs,
    spread,
    too_long,
    write_answers,
)

SPLITS: tuple[Part, ...] = ("train", "valid", "test")
SAMPLES = 3  # shown before training, as they were read


@runtime_checkable
class Texts(Protocol):
    """Pairs that are read anew at every call, so that nothing large is held."""

    def __call__(self, report: Report | None = None) -> Iterator[tuple[str, str]]:
        """The pairs; what is wrong with their file is reported."""


def prepare(
    recipe: Recipe, report: Report, tokenizers: Mapping[str, Tokenizer], labels: list[str] | None
) -> Prepared:
    """Pairs read and tokenised; tokenizers are trained unless they are given."""
    if recipe.training.best in ("bleu", "chrf", "exact") and not recipe.training.decode:
        raise RegardError(
            f"training.best={recipe.training.best}: nothing is translated at an evaluation; set training.decode, "
            "such as 200"
        )
    splits = {split: pairs_of(recipe, split) for split in SPLITS}
    counts, samples = _looked_through(recipe, splits, report)
    training = _with_made(recipe, splits["train"])
    tokenizers = dict(tokenizers) or _trained(recipe, training)
    source, target = tokenizers["source"], tokenizers.get("target", tokenizers["source"])
    longest = {"train": recipe.tokens.longest, "valid": None}  # what is long is left out of training alone
    read: dict[Part, Texts] = {"train": training, "valid": splits["valid"]}
    feeds = {
        split: _feed(
            recipe, read[split], source, target, longest[split], packed=split == "train" and packs(recipe)
        )
        for split in read
    }
    left_out, total = feeds["train"].left_out, len(feeds["train"].sources)
    made = total - counts["train"]
    validated = list(islice(splits["valid"](), recipe.training.decode))

    def validate(model: nn.Module) -> list[Metric]:
        found = likelihood(model, feeds["valid"])
        if validated:
            translator = Translator(model, tokenizers, replace(recipe.decoding, beam=1))
            found += translation(translator, validated, tokenize=recipe.decoding.bleu)
        return found

    shown = spread(splits["valid"]())

    def answer(model: nn.Module) -> list[AnsweredSample]:
        translated = Translator(model, tokenizers, replace(recipe.decoding, beam=1)).translate(
            [source for source, _ in shown]
        )
        return [
            AnsweredSample(source, text, target)
            for (source, target), text in zip(shown, translated, strict=True)
        ]

    def test(model: nn.Module) -> list[Metric]:
        return translation(
            Translator(model, tokenizers, recipe.decoding),
            list(splits["test"]()),
            tokenize=recipe.decoding.bleu,
        )

    return Prepared(
        config=replace(recipe.model, source_vocabulary=source.size, target_vocabulary=target.size),
        train=feeds["train"],
        validate=validate,
        test=test,
        answer=answer,
        tokenizers=tokenizers,
        facts={
            "training pairs": total - left_out,
            **({"made of others": made} if made else {}),
            **too_long(left_out, recipe.tokens.longest, total),
            "validation pairs": counts["valid"],
            "test pairs": counts["test"],
            "vocabulary": source.size if source is target else f"{source.size} + {target.size}",
        },
        samples=samples,
    )


def evaluate(loaded: Any, recipe: Recipe, report: Report, answers: Path | None) -> list[Metric]:
    """BLEU, chrF and exact matches on the test pairs."""
    pairs = list(pairs_of(recipe, "test")(report))
    if not pairs:
        raise RegardError(f"nothing to evaluate on: no pairs{report.reasons}")
    sources, references = zip(*pairs, strict=True)
    translations = loaded.translate(sources)
    if answers is not None:
        write_answers(answers, "translation", zip(sources, references, translations, strict=True))
    return translation_metrics(translations, references, tokenize=loaded.decoding.bleu)


def translation(translator: Translator, pairs: list[tuple[str, str]], *, tokenize: str) -> list[Metric]:
    """BLEU, chrF and exact matches of what a translator makes of the sources."""
    if not pairs:
        raise RegardError("nothing to evaluate on: no pairs")
    sources, references = zip(*pairs, strict=True)
    return translation_metrics(translator.translate(sources), references, tokenize=tokenize)


def pairs_of(recipe: Recipe, split: Part) -> Texts:
    """The pairs of a split, read anew at every call, which may hand in a report for what is wrong with its file."""
    data = recipe.data
    if isinstance(data, NumberData):
        count = {"train": data.train, "valid": data.valid, "test": data.test}[split]
        pairs = number_pairs(count, largest=data.largest, seed=recipe.seed, part=split)
        return lambda report=None: iter(pairs)
    if not isinstance(data, PairData):
        raise RegardError(f"data.kind: {data.KIND} holds no pairs to translate; take pairs or numbers")
    given = {"train": data.train, "valid": data.valid, "test": data.test}
    own = given[split]
    held_out = [each for each in ("valid", "test") if given[each] is None]
    place = data.train if own is None else own

    def texts(report: Report | None = None) -> Iterator[tuple[str, str]]:
        pairs = read_pairs(
            _placed(data.folder, place),
            columns=data.columns,
            policy=data.policy,
            report=report,
            limit=data.longest,
        )
        if split == "train" or own is None:
            pairs = (pair for pair in pairs if split_of(pair[0], data.held_out, held_out) == split)
        return iter(pairs)

    return texts


def _with_made(recipe: Recipe, texts: Texts) -> Texts:
    """The training pairs, with those that `data.joined` and `data.hurried` ask to make of them."""
    data = recipe.data
    if not isinstance(data, PairData) or not (data.joined or data.hurried):
        return texts

    def made(report: Report | None = None) -> Iterator[tuple[str, str]]:
        pairs = join_pairs(texts(report), share=data.joined, seed=recipe.seed)
        return hurried_sources(pairs, share=data.hurried, seed=recipe.seed)

    return made


def _looked_through(
    recipe: Recipe, splits: Mapping[Part, Texts], report: Report
) -> tuple[dict[Part, int], list[tuple[str, str]]]:
    """How many pairs each split has, and the first few. All is read, so that all that is wrong is reported."""
    counts: dict[Part, int] = dict.fromkeys(SPLITS, 0)
    samples: list[tuple[str, str]] = []
    for split, texts in splits.items():
        own = getattr(recipe.data, split) is not None  # what is held out was reported with the training file
        for pair in texts(report if own else None):
            counts[split] += 1
            if split == "train" and len(samples) < SAMPLES:
                samples.append(pair)
        if not counts["train"]:
            why = report.reasons or "; is the file empty?"
            raise RegardError(f"data.train: no pair is left to train on{why}")
        if not counts[split]:
            raise RegardError(
                f"data.{split}: no pair is there; give a file with some, or a larger data.held_out than "
                f"{getattr(recipe.data, 'held_out', 0)}{report.reasons}"
            )
    return counts, samples


def split_of(source: str, share: float, held_out: list[str]) -> str:
    """Where a source belongs, decided by the source alone, so that all its translations fall together."""
    number = int.from_bytes(hashlib.blake2b(source.encode(), digest_size=8).digest(), "big") / 2**64
    for split in held_out:
        if number < share:
            return split
        number -= share
    return "train"


def _placed(folder: str, place: Place) -> Place:
    if isinstance(place, Parallel):
        return Parallel(located(folder, place.source), located(folder, place.target))
    return all_located(folder, place)


def _trained(recipe: Recipe, texts: Texts) -> dict[str, Tokenizer]:
    if recipe.tokens.joint:
        return {"source": trained(recipe, (side for pair in texts() for side in pair))}
    sides = ("source", "target")
    return {side: trained(recipe, (pair[i] for pair in texts())) for i, side in enumerate(sides)}


def trained(recipe: Recipe, texts: Iterable[str]) -> Tokenizer:
    """A tokenizer of the kind and size that a recipe asks for."""
    wanted = recipe.tokens
    return Tokenizer.train(texts, kind=wanted.kind, size=wanted.size, least=wanted.least)


def _feed(
    recipe: Recipe,
    texts: Texts,
    source: Tokenizer,
    target: Tokenizer,
    longest: int | None,
    *,
    packed: bool,
) -> PairFeed:
    sides = tokenize_pairs(texts(), source, target)
    return PairFeed(*sides, budget=recipe.training.batch, seed=recipe.seed, longest=longest, packed=packed)
