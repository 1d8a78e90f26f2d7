"""Unrolling: one token after another for every row, whatever way it is chosen."""

from collections.abc import Callable
from itertools import count
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.data.batches import END
from regard.decoding.evaluating import evaluating
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.limits import Limits, per_row
from regard.models.protocols import AnyModel

# From the logits of some texts, their numbers and the step: the next token of each, and its log-probability.
Choice = Callable[
    [Float[Tensor, "r vocabulary"], Int[Tensor, " r"], int], tuple[Int[Tensor, " r"], Float[Tensor, " r"]]
]


def unroll(model: AnyModel, source: Any, choose: Choice, *, limits: Limits) -> list[Hypothesis]:
    """A text for every row of the source, each until END or its limit."""
    with evaluating(model):
        state = model.start(source)
        tokens = state.first
        texts = torch.arange(len(tokens), device=tokens.device)  # the text that each row of the batch writes
        most = per_row(limits, len(tokens), device=tokens.device)
        going = texts  # the rows of the batch whose texts go on
        history = _History(len(tokens))
        for step in count():
            logits, state = model.step(tokens, state)
            of = texts[going]
            chosen, logprobs = choose(logits if len(going) == len(texts) else logits[going], of, step)
            history.add(of, going, chosen, logprobs)
            tokens = torch.full_like(tokens, END).index_put((going,), chosen)
            going = going[(chosen != END) & (most[of] > step + 1)]
            if not len(going):
                break
            # Copying what the others remember is worth it once a quarter has gone. A row that has reached its
            # limit must go at once: its model may have no position for another token.
            if 4 * len(going) <= 3 * len(texts) or bool((most[texts] <= step + 1).any()):
                state, tokens, texts = state.pick(going), tokens[going], texts[going]
                going = torch.arange(len(texts), device=texts.device)
        return history.hypotheses()


class _History:
    """What was chosen, a column a step."""

    def __init__(self, texts: int) -> None:
        self._texts = texts
        self._steps: list[tuple[Tensor, ...]] = []

    def add(self, texts: Tensor, rows: Tensor, tokens: Tensor, logprobs: Tensor) -> None:
        """What these texts, written by these rows of the batch, went on with."""
        shape = (self._texts,)
        self._steps.append(
            (
                rows.new_full(shape, -1).index_put((texts,), rows),
                tokens.new_full(shape, -1).index_put((texts,), tokens),
                logprobs.new_zeros(shape).index_put((texts,), logprobs),
            )
        )

    def hypotheses(self) -> list[Hypothesis]:
        """The texts, once all have come to an end."""
        rows, tokens, logprobs = (torch.stack(column, dim=1) for column in zip(*self._steps, strict=True))
        totals = logprobs.sum(1, dtype=torch.float64).tolist()
        found = []
        for came_from, text, total in zip(rows.tolist(), tokens.tolist(), totals, strict=True):
            length = sum(row >= 0 for row in came_from)
            finished = text[length - 1] == END
            found.append(
                Hypothesis(
                    tokens=text[: length - finished],
                    logprob=total,
                    score=total,
                    finished=finished,
                    rows=came_from[:length],
                )
            )
        return found
