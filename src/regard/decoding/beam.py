"""Beam search: the best few beginnings of every sentence, followed side by side."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count as counting
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from regard.data.batches import END, PAD
from regard.data.given import number, whole
from regard.decoding.evaluating import check_model, evaluating
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.limits import Limits, per_row
from regard.decoding.probabilities import leading
from regard.decoding.ranking import best
from regard.decoding.recorded import recorded
from regard.errors import RegardError
from regard.models.protocols import AnyModel


def beam(
    model: AnyModel, source: Any, *, size: int, limits: Limits, penalty: float = 0.6, count: int = 1
) -> list[list[Hypothesis]]:
    """For every row of the source its `count` best texts, best first.

    At each step the `size` likeliest continuations of a sentence are kept; those that end are set aside as
    finished, the others live on. Finished texts are ranked by

        log p(text | source) / ((5 + length) / 6)^penalty        (Wu 2016, eq. 14, without coverage)

    with END counted in the length. A sentence stops when `count` texts are finished and none that is alive could
    still beat the worst of them at any length up to its limit; stopping there loses nothing. Where fewer than
    `count` finish within the limit, the best unfinished ones follow them. `limits` as in `greedy`, which is what
    size 1 gives.
    """
    check_model(model)
    _check(size, count, penalty)
    found = recorded(model, source, limits=limits, size=size, count=count, penalty=penalty)
    if found is not None:
        return found

    def weakened(logprob: Tensor, length: Tensor) -> Tensor:
        return logprob.double() / ((5 + length.double()) / 6) ** penalty

    with evaluating(model):
        state = model.start(source)
        tokens = state.first
        most = per_row(limits, len(tokens), device=tokens.device)
        sentences = torch.arange(len(tokens), device=tokens.device)
        # One row a sentence at first: `size` equal ones would only find the same continuations again.
        live = _Lines.beginning(len(tokens), 1, logprob=0.0, device=tokens.device)
        kept = _Lines.beginning(len(tokens), count, logprob=-torch.inf, device=tokens.device)
        results: list[list[Hypothesis]] = [[] for _ in sentences]
        for step in counting():
            logits, state = model.step(tokens, state)
            length = torch.full_like(most, step + 1)
            grown = _grown(live, logits, size, step=step, sentences=sentences)
            grown = replace(grown, score=weakened(grown.logprob, length[:, None]))
            ended = grown.tokens[..., -1] == END
            kept = kept.rivalled(grown.where(ended), count)
            live = grown.where(~ended)
            # Log-probabilities only fall, so the best that a living text can come to is what it has now, at the
            # length that is penalised least.
            attainable = weakened(live.logprob.amax(-1), most if penalty >= 0 else length + 1)
            over = (most <= length) | (kept.score[:, -1] >= attainable)
            for which in over.nonzero()[:, 0].tolist():
                finished = kept.hypotheses(which, finished=True)
                unfinished = live.hypotheses(which, finished=False)
                results[int(sentences[which])] = [*finished, *unfinished][:count]
            stay = (~over).nonzero()[:, 0]
            if not len(stay):
                break
            live, kept, most, sentences = live.of(stay), kept.of(stay), most[stay], sentences[stay]
            state = state.pick(live.rows[..., -1].flatten())
            # A row without a text is stepped along with its sentence, on a token that every model knows.
            tokens = live.tokens[..., -1].where(live.real, END).flatten()
    return results


@dataclass(frozen=True, eq=False)
class _Lines:
    """Texts of some sentences, equally many each. A log-probability of −inf marks a place without a text."""

    logprob: Float[Tensor, "s n"]
    score: Float[Tensor, "s n"]
    tokens: Int[Tensor, "s n t"]
    rows: Int[Tensor, "s n t"]  # of the batch of each step; −1 after the end

    @classmethod
    def beginning(cls, sentences: int, texts: int, *, logprob: float, device: torch.device) -> "_Lines":
        """Texts before their first token."""
        start = torch.full((sentences, texts), logprob, device=device)
        nothing = torch.zeros(sentences, texts, 0, dtype=torch.long, device=device)
        return cls(start, start.double(), nothing, nothing)

    @property
    def real(self) -> Tensor:
        """[s, n]: where there is a text."""
        return self.logprob > -torch.inf

    def of(self, sentences: Int[Tensor, " r"]) -> "_Lines":
        """Those of some of the sentences."""
        return self._each(lambda part: part[sentences])

    def where(self, wanted: Tensor) -> "_Lines":
        """The same with only these texts."""
        gone = -torch.inf
        return replace(self, logprob=self.logprob.where(wanted, gone), score=self.score.where(wanted, gone))

    def rivalled(self, others: "_Lines", count: int) -> "_Lines":
        """The best of these and of others that are one token longer; of equals, the earlier."""
        tokens, rows = F.pad(self.tokens, (0, 1), value=PAD), F.pad(self.rows, (0, 1), value=-1)
        joined = _Lines(
            torch.cat([self.logprob, others.logprob], dim=1),
            torch.cat([self.score, others.score], dim=1),
            torch.cat([tokens, others.tokens], dim=1),
            torch.cat([rows, others.rows], dim=1),
        )
        return joined.chosen(best(joined.score, count)[1])

    def chosen(self, which: Int[Tensor, "s k"]) -> "_Lines":
        """Some texts of each sentence, by their places."""
        sentences = torch.arange(len(which), device=which.device)[:, None]
        return self._each(lambda part: part[sentences, which])

    def hypotheses(self, sentence: int, *, finished: bool) -> list[Hypothesis]:
        """The texts of one sentence, in their order."""
        found = []
        columns = (self.logprob, self.score, self.tokens, self.rows)
        for logprob, score, tokens, rows in zip(*(c[sentence].tolist() for c in columns), strict=True):
            if logprob == -torch.inf:
                continue
            length = sum(row >= 0 for row in rows)
            text = tokens[: length - finished]
            found.append(
                Hypothesis(tokens=text, logprob=logprob, score=score, finished=finished, rows=rows[:length])
            )
        return found

    def _each(self, change: Callable[[Tensor], Tensor]) -> "_Lines":
        return _Lines(*map(change, (self.logprob, self.score, self.tokens, self.rows)))


def _grown(lines: _Lines, logits: Tensor, size: int, *, step: int, sentences: Tensor) -> _Lines:
    """The `size` likeliest continuations of every sentence by one token."""
    s, n = lines.logprob.shape
    texts = sentences[:, None].where(lines.real, -1).flatten()
    # No text has more than `size` continuations among the `size` best of its sentence. In the order of tokens, so
    # that of equals the first is taken as if all had been compared.
    ahead, tokens = leading(logits, size, step=step, texts=texts)
    tokens, order = tokens.sort(-1)
    ahead = ahead.gather(-1, order).reshape(s, n, -1)
    total = (ahead + lines.logprob[..., None]).where(lines.real[..., None], -torch.inf)
    logprob, index = best(total.flatten(1), size)
    parent, token = index // size, tokens.reshape(s, -1).gather(-1, index)
    parents = lines.chosen(parent)
    row = parent + n * torch.arange(s, device=parent.device)[:, None]
    written, rows = (
        torch.cat([old, new[..., None]], dim=-1)
        for old, new in ((parents.tokens, token), (parents.rows, row))
    )
    return _Lines(logprob, logprob, written, rows)


def _check(size: int, count: int, penalty: float) -> None:
    if whole("size", size) < 1:
        raise RegardError(f"a beam of size {size}: keep at least 1 text a step")
    if not 1 <= whole("count", count) <= size:
        raise RegardError(
            f"the {count} best of a beam of size {size}: ask for 1 to {size}, or widen the beam"
        )
    if not math.isfinite(number("penalty", penalty)):
        raise RegardError(f"a length penalty of {penalty}: give a finite exponent; 0 means none")
