"""Answers in words, to whatever a model reads: texts, pictures or recordings."""

from dataclasses import dataclass
from typing import Any

import torch

from regard.data.batches import Batch
from regard.data.tokenizer import Tokenizer
from regard.decoding.beam import beam
from regard.decoding.greedy import greedy
from regard.decoding.limits import Limits
from regard.runs.settings import Decoding


@dataclass(frozen=True)
class Answer:
    """One answer: its text, and how likely the model finds it."""

    text: str
    score: float  # log-probability, with the length penalty
    logprob: float  # of the whole text and its end
    tokens: list[int]


def answers(
    model: Any,  # that `Generates`
    source: Batch,
    tokenizer: Tokenizer,
    decoding: Decoding,
    *,
    limits: Limits | None = None,  # most tokens of an answer; default as decoding says
    count: int = 1,
) -> list[list[Answer]]:
    """The `count` best answers to every row of a source, best first."""
    most = decoding.tokens if limits is None else limits
    width = max(decoding.beam, count)
    with torch.no_grad():
        found = (
            [[one] for one in greedy(model, source, limits=most)]
            if width == 1
            else beam(model, source, size=width, limits=most, penalty=decoding.penalty, count=count)
        )
    return [
        [Answer(tokenizer.decode(one.tokens), one.score, one.logprob, one.tokens) for one in best]
        for best in found
    ]
