"""A trained translator: text in, text out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from regard.data.batches import END, Pairs, Sequences
from regard.data.tokenizer import Tokenizer
from regard.decoding.beam import beam
from regard.decoding.forced import score
from regard.decoding.greedy import greedy
from regard.decoding.hypothesis import Hypothesis
from regard.errors import RegardError
from regard.runs.reading import changed
from regard.runs.settings import Decoding
from regard.runs.texts import several

ROWS = 64  # sentences decoded together


@dataclass(frozen=True)
class Translation:
    """One answer: its text, and how likely the model finds it."""

    text: str
    score: float  # log-probability, with the length penalty
    logprob: float  # of the whole text and its end
    tokens: list[int]


class Translator:
    """A model with its tokenizers."""

    def __init__(
        self,
        model: nn.Module,  # that `Generates`
        tokenizers: dict[str, Tokenizer],
        decoding: Decoding | None = None,
    ) -> None:
        self.model: Any = model
        self.source = tokenizers["source"]
        self.target = tokenizers.get("target", self.source)
        self.decoding = decoding or Decoding()

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def translate(self, texts: Sequence[str], **changes: Any) -> list[str]:
        """The best translation of each text. `beam=5`, `penalty=1.0` … as in `Decoding`."""
        return [best[0].text for best in self.hypotheses(texts, **changes)]

    def hypotheses(self, texts: Sequence[str], *, count: int = 1, **changes: Any) -> list[list[Translation]]:
        """The `count` best translations of each text, best first."""
        decoding = changed(self.decoding, changes, where="translate")
        if count > decoding.beam:
            decoding = replace(decoding, beam=count)
        encoded = [[*ids, END] for ids in self.source.encode_all(several(texts))]
        for text, ids in zip(texts, encoded, strict=True):
            if len(ids) > decoding.most:
                raise RegardError(
                    f"{text[:30]!r} … is {len(ids):,} tokens long, and a source has at most {decoding.most:,}: cut it, or "
                    "set decoding.most"
                )
        # Sentences of like length together, so that little is filled up; their company changes no answer.
        order = sorted(range(len(texts)), key=lambda i: len(encoded[i]))
        found: list[list[Translation]] = [[] for _ in texts]
        for start in range(0, len(order), ROWS):
            rows = order[start : start + ROWS]
            for row, best in zip(
                rows, self._decode([encoded[row] for row in rows], decoding, count), strict=True
            ):
                found[row] = [
                    Translation(self.target.decode(one.tokens), one.score, one.logprob, one.tokens)
                    if len(encoded[row]) > 1
                    else Translation("", 0.0, 0.0, [])  # an empty line stays one
                    for one in best
                ]
        return found

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[float]:
        """The log-probability of each target as the translation of its source."""
        if len(several(sources)) != len(several(targets)):
            raise RegardError(f"{len(sources)} sources but {len(targets)} targets")
        scores: list[float] = []
        for start in range(0, len(sources), ROWS):
            some = slice(start, start + ROWS)
            scores += [each.logprob for each in score(self.model, self.pairs(sources[some], targets[some]))]
        return scores

    def pairs(self, sources: Sequence[str], targets: Sequence[str]) -> Pairs:
        """Texts as a batch, on the device of the model."""
        batch = Pairs(
            Sequences.of([[*ids, END] for ids in self.source.encode_all(sources)]),
            Sequences.of([[*ids, END] for ids in self.target.encode_all(targets)]),
        )
        return batch.to(self.device)

    def _decode(self, rows: list[list[int]], decoding: Decoding, count: int) -> list[list[Hypothesis]]:
        source = Sequences.of(rows).to(self.device)
        limits = (source.lengths * decoding.longest).long() + decoding.extra
        if decoding.beam == 1:
            return [[one] for one in greedy(self.model, source, limits=limits)]
        return beam(
            self.model, source, size=decoding.beam, limits=limits, penalty=decoding.penalty, count=count
        )
