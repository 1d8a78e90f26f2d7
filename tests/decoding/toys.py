"""Small models whose probabilities are known: what a decoder finds can be checked against looking everywhere."""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby

import torch
from torch import Tensor

from regard.data.batches import END, PAD, START, Sequences
from regard.models.layout import Spent

Logits = Callable[
    [tuple[int, ...], tuple[int, ...]], Sequence[float]
]  # of what follows (source, text so far)


@dataclass(frozen=True, eq=False)
class ToyState:
    sources: list[tuple[int, ...]]
    texts: list[tuple[int, ...]]
    spent: Spent = field(default_factory=Spent)

    @property
    def first(self) -> Tensor:
        return torch.full((len(self.texts),), START)

    def pick(self, rows: Tensor) -> "ToyState":
        wanted = rows.tolist()
        return ToyState([self.sources[row] for row in wanted], [self.texts[row] for row in wanted])


@dataclass(frozen=True, eq=False)
class Toy:
    """A model that is nothing but a function of a row's source and of the tokens it was stepped with."""

    logits_of: Logits
    dtype: torch.dtype = torch.float32
    batches: list[int] = field(default_factory=list)  # how many rows each step had
    most: int = 10**9  # the number of positions it has

    def start(self, source: Sequences) -> ToyState:
        rows = zip(source.tokens.tolist(), source.lengths.tolist(), strict=True)
        return ToyState([tuple(row[:length]) for row, length in rows], [()] * len(source))

    def step(self, tokens: Tensor, state: ToyState) -> tuple[Tensor, ToyState]:
        state.spent.spend()
        self.batches.append(len(tokens))
        texts = [(*text, token) for text, token in zip(state.texts, tokens.tolist(), strict=True)]
        assert PAD not in {token for text in texts for token in text}
        for source, text in zip(state.sources, texts, strict=True):
            assert len(source) + len(text) <= self.most, "no position left"
        logits = [self.logits_of(source, text) for source, text in zip(state.sources, texts, strict=True)]
        return torch.tensor(logits, dtype=self.dtype), ToyState(state.sources, texts)


class Grouped(Toy):
    """A toy that holds the memory of a sentence once, and so wants equally many rows of each, side by side."""

    def step(self, tokens: Tensor, state: ToyState) -> tuple[Tensor, ToyState]:
        sizes = {len(list(rows)) for _, rows in groupby(state.sources)}
        assert len(sizes) == 1
        assert len(list(groupby(state.sources))) == len(set(state.sources))
        return super().step(tokens, state)


def hashed(vocabulary: int, *, ending: float = 0.0, seed: int = 0) -> Logits:
    """Logits that depend on everything: a wrong row, a lost token or a shifted step changes all of them."""

    @cache
    def logits(source: tuple[int, ...], text: tuple[int, ...]) -> list[float]:
        draw = random.Random(f"{seed} {source} {text}")
        row = [draw.gauss(0, 1.5) for _ in range(vocabulary)]
        row[END] += ending
        return row

    return logits


def log_softmax(row: Sequence[float]) -> list[float]:
    top = max(row)
    total = top + math.log(sum(math.exp(x - top) for x in row))
    return [x - total for x in row]


def every_text(
    logits: Logits,
    source: tuple[int, ...],
    limit: int,
    text: tuple[int, ...] = (START,),
    logprob: float = 0.0,
) -> Iterator[tuple[tuple[int, ...], float, bool]]:
    """Every text up to a limit: its tokens, its log-probability and whether it ended."""
    for token, each in enumerate(log_softmax(logits(source, text))):
        if token in (PAD, START):
            continue
        if token == END:
            yield text[1:], logprob + each, True
        elif len(text) == limit:
            yield (*text[1:], token), logprob + each, False
        else:
            yield from every_text(logits, source, limit, (*text, token), logprob + each)


def sources(count: int, *, seed: int = 0) -> list[list[int]]:
    """Different sources of different lengths."""
    draw = random.Random(seed)
    return [
        [row + 4, *(draw.randrange(4, 30) for _ in range(draw.randrange(6))), END] for row in range(count)
    ]
