"""A beam search as a tree: what each step kept, and what it dropped.

A wrapper around the model records which rows and tokens each step continues, so the tree is that of the search itself
and not of a second one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.data.batches import END
from regard.data.tokenizer import Tokenizer
from regard.decoding.search import leading
from regard.runs.answering import Answer
from regard.sight.explorer.axis_labels import spelled
from regard.sight.explorer.example import Branch

FELL = 6  # shown of those that a step dropped, the likeliest


@dataclass(frozen=True, eq=False)
class _Call:
    """One step: the rows that went on, with which token, and what was likely after each of them."""

    rows: list[int] | None  # of the step before; None at the first
    tokens: list[int]
    logprobs: Float[Tensor, "rows n"]
    following: Int[Tensor, "rows n"]


@dataclass(frozen=True, eq=False)
class _State:
    inner: Any
    rows: list[int] | None = None

    @property
    def first(self) -> Tensor:
        return self.inner.first

    def pick(self, rows: Int[Tensor, " r"]) -> "_State":
        return _State(self.inner.pick(rows), rows.tolist())


class Followed(nn.Module):
    """Wraps a model that generates for one source, and records its steps."""

    def __init__(self, model: nn.Module, size: int) -> None:
        super().__init__()
        self.model: Any = model
        self.size = size  # of the beam
        self.asked: list[_Call] = []

    def start(self, source: Any) -> _State:
        """Nothing asked yet."""
        self.asked.clear()
        return _State(self.model.start(source))

    def step(self, tokens: Int[Tensor, " r"], state: _State) -> tuple[Tensor, _State]:
        """What the model says."""
        logits, inner = self.model.step(tokens, state.inner)
        likely, which = leading(logits, self.size + FELL)
        self.asked.append(_Call(state.rows, tokens.tolist(), likely, which))
        return logits, _State(inner)

    def branches(
        self, tokenizer: Tokenizer, answers: Sequence[Answer]
    ) -> tuple[tuple[Branch, ...], ...] | None:
        """What every step had to choose from, best first; None where there was no beam."""
        if self.size < 2:
            return None
        lines = _lines(self.asked, self.size)
        finals = [(*answer.tokens, END) for answer in answers]
        return tuple(tuple(_branch(line, tokenizer, finals) for line in step) for step in lines)


@dataclass(eq=False)
class _Line:
    """A beginning of a text that a step could choose."""

    tokens: tuple[int, ...]
    logprob: float
    row: int  # it came from
    kept: bool
    parent: "_Line | None" = None
    last: int = field(default=0)  # the last step at which something of it was left


def _lines(asked: Sequence[_Call], size: int) -> list[list[_Line]]:
    found: list[list[_Line]] = []
    living: list[_Line | None] = [None]
    for number, step in enumerate(asked):
        behind = asked[number + 1] if number + 1 < len(asked) else None
        went_on = set() if behind is None else set(zip(behind.rows or [], behind.tokens, strict=True))
        choices: list[_Line] = []
        for row, before in enumerate(living):
            if number and before is None:
                continue  # a row without a text
            for logprob, token in zip(step.logprobs[row].tolist(), step.following[row].tolist(), strict=True):
                if logprob > -torch.inf:
                    written = (*(before.tokens if before else ()), token)
                    total = logprob + (before.logprob if before else 0.0)
                    choices.append(_Line(written, total, row, kept=False, parent=before, last=number))
        choices.sort(key=lambda line: -line.logprob)
        for place, line in enumerate(choices):
            ended = line.tokens[-1] == END or behind is None
            line.kept = place < size if ended else (line.row, line.tokens[-1]) in went_on
        found.append(
            [line for line in choices if line.kept] + [line for line in choices if not line.kept][:FELL]
        )
        if behind is not None:
            by_row = {(line.row, line.tokens[-1]): line for line in choices if line.kept}
            pairs = zip(behind.rows or [], behind.tokens, strict=True)
            living = [None if token == END else by_row[row, token] for row, token in pairs]
    for step_lines in reversed(found):
        for line in step_lines:
            if line.kept and line.parent is not None:
                line.parent.last = max(line.parent.last, line.last)
    return found


def _branch(line: _Line, tokenizer: Tokenizer, finals: Sequence[tuple[int, ...]]) -> Branch:
    ended = line.tokens[-1] == END
    length = len(line.tokens)
    leads = tuple(place for place, final in enumerate(finals) if final[:length] == line.tokens)
    return Branch(
        text=tokenizer.decode(list(line.tokens[:-1] if ended else line.tokens)),
        token=spelled(tokenizer, line.tokens)[-1],
        logprob=line.logprob,
        fate="fell" if not line.kept else "ended" if ended else "lives",
        leads=leads,
        until=line.last,
    )
