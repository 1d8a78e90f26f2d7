"""Sentences of seven words with two nouns, one singular and one plural: the subject is the one that agrees with the verb."""

from dataclasses import dataclass
from functools import cache
from itertools import permutations, product

import torch
from torch import Tensor

NOUNS = ("cat", "dog", "bird", "horse", "cow", "girl", "boy", "king")
VERBS = ("sleep", "run", "sing", "wait")
# {a} is the subject, {b} the other noun. In pairs that exchange the two, so that no place says which is the subject.
ORDERS = (
    "the {a} near the {b} often {v}",
    "the {b} saw the {a} that {v}",
    "often the {a} near the {b} {v}",
    "near the {b} often the {a} {v}",
)
LENGTH = 7


@dataclass(frozen=True, kw_only=True)
class AgreementSentence:
    """The words, the place of the subject, which noun that is, and whether its pair of nouns is held out."""

    words: tuple[str, ...]
    subject: int
    noun: int
    held_out: bool


def agreement_sentence(order: str, subject: int, other: int, verb: str, *, plural: bool) -> AgreementSentence:
    """One sentence: the subject plural and the other noun singular, or the reverse."""
    words = order.format(
        a=NOUNS[subject] + ("s" if plural else ""),
        b=NOUNS[other] + ("" if plural else "s"),
        v=verb + ("" if plural else "s"),
    )
    return AgreementSentence(
        words=tuple(words.split()),
        subject=order.split().index("{a}"),
        noun=subject,
        held_out=(subject + other) % 4 == 0,  # the pair both ways round, or one of them would tell the other
    )


def every_sentence() -> list[AgreementSentence]:
    """All orders, pairs of different nouns, verbs and numbers."""
    pairs = permutations(range(len(NOUNS)), 2)
    return [
        agreement_sentence(order, subject, other, verb, plural=plural)
        for order, (subject, other), verb, plural in product(ORDERS, pairs, VERBS, (True, False))
    ]


@cache
def vocabulary() -> dict[str, int]:
    """A number for each word that occurs."""
    found = sorted({word for sentence in every_sentence() for word in sentence.words})
    return {word: number for number, word in enumerate(found)}


def encoded(sentences: list[AgreementSentence]) -> tuple[Tensor, Tensor]:
    """Words as numbers [sentences, 7], and the noun that each is about."""
    numbers = vocabulary()
    words = torch.tensor([[numbers[word] for word in sentence.words] for sentence in sentences])
    return words, torch.tensor([sentence.noun for sentence in sentences])
