"""A trained translator: text in, text out."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from regard.data.batches import END, Pairs, Sequences
from regard.data.given import texts_of, whole
from regard.data.tokenizer import Tokenizer
from regard.decoding.forced import score
from regard.errors import RegardError
from regard.runs.answering import Answer, answers
from regard.runs.inputs import TextReader
from regard.runs.reading import changed
from regard.runs.settings import Decoding

ROWS = 64  # sentences decoded together


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

    def hypotheses(self, texts: Sequence[str], *, count: int = 1, **changes: Any) -> list[list[Answer]]:
        """The `count` best translations of each text, best first."""
        decoding = changed(self.decoding, changes, where="translate")
        whole("count", count, least=1)
        encoded = [[*ids, END] for ids in self.source.encode_all(texts_of(texts))]
        for text, ids in zip(texts, encoded, strict=True):
            if len(ids) > decoding.most:
                raise RegardError(
                    f"{text[:30]!r} … is {len(ids):,} tokens long, and a source has at most {decoding.most:,}: cut it, or "
                    "set decoding.most"
                )
        # Sentences of like length together, so that little is filled up; their company changes no answer.
        order = sorted(range(len(texts)), key=lambda i: len(encoded[i]))
        found: list[list[Answer]] = [[] for _ in texts]
        for start in range(0, len(order), ROWS):
            rows = order[start : start + ROWS]
            source = Sequences.of([encoded[row] for row in rows]).to(self.device)
            limits = (source.lengths * decoding.longest).long() + decoding.extra
            best = answers(self.model, source, self.target, decoding, limits=limits, count=count)
            for row, translations in zip(rows, best, strict=True):
                # An empty line stays one.
                found[row] = (
                    translations if len(encoded[row]) > 1 else [Answer("", 0.0, 0.0, [])] * len(translations)
                )
        return found

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[float]:
        """The log-probability of each target as the translation of its source."""
        if len(texts_of(sources)) != len(texts_of(targets)):
            raise RegardError(f"{len(sources)} sources but {len(targets)} targets")
        scores: list[float] = []
        for start in range(0, len(sources), ROWS):
            some = slice(start, start + ROWS)
            scores += [each.logprob for each in score(self.model, self.pairs(sources[some], targets[some]))]
        return scores

    def pairs(self, sources: Sequence[str], targets: Sequence[str]) -> Pairs:
        """Texts as a batch, on the device of the model."""
        return Pairs(TextReader(self.source).batch(sources), TextReader(self.target).batch(targets)).to(
            self.device
        )
