"""Decoding: steps of a model and of a search in turns, until every text is over; and greedy decoding, the simplest.

A model that has `start`, `step` and `pick` is stepped eagerly, and sources whose texts are over leave the batch. One that
also has a static cache keeps its shape on a GPU, see `static_decode`.
"""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import is_dataclass
from threading import Lock
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn

from regard.attention.dispatch import notify_decoded, observers
from regard.data.given import instance, integers, whole
from regard.decoding.hypothesis import Hypothesis, beams
from regard.decoding.search import Search, SingleSearch
from regard.errors import RegardError
from regard.models.protocols import AnyModel, Generates, StepsStatically

_CAPACITY = 64  # steps that an eager search has space for at first

Limits = int | Int[Tensor, " b"]  # each row has its own, so that the other rows of a batch change nothing
MakeSearch = Callable[..., Search]  # of limits, capacity and device
RowKeys = Callable[[int], Int[Tensor, " rows"]]  # of the number of rows: the random keys of a sampling search


def greedy(model: AnyModel, source: Any, *, limits: Limits) -> list[Hypothesis]:
    """A text for every row of the source: at each step argmax p(token | what came before).

    `limits` is the most tokens of a text, END among them: one number, or one a row. Of equally likely tokens the
    one with the smallest number is taken.
    """
    return [text for (text,) in decode(model, source, SingleSearch, limits=limits, name=("greedy",))]


def decode(
    model: AnyModel,
    source: Any,
    make: MakeSearch,
    *,
    limits: Limits,
    name: tuple[Hashable, ...],  # of the search, with its settings: equal names make equal searches
    group: int = 1,
    row_keys: RowKeys | None = None,
) -> list[list[Hypothesis]]:
    """The texts of every row of the source, best first."""
    check_model(model)
    if static_on(model, source):
        from regard.decoding.static_decode import static_decode

        found = static_decode(model, source, make, limits=limits, name=name, group=group, row_keys=row_keys)
        if found is not None:
            return found
    with evaluating(model):
        stepped = SteppedDecode(model, source, make, limits=limits, row_keys=row_keys)
        while stepped.step():
            pass
    report_rows(model, stepped.texts, stepped.steps)
    return stepped.texts


def check_model(model: object) -> None:
    """Refuse what cannot generate."""
    instance("model", model, Generates, "give a model that generates: it has `start` and `step`")


def static_on(model: object, source: Any) -> bool:
    """Whether a model decodes this source over static caches: on a GPU, if it can step so."""
    if not isinstance(model, nn.Module):
        return False
    weight = next(model.parameters(), None)
    on_gpu = weight is not None and weight.device.type == "cuda"
    return on_gpu and isinstance(model, StepsStatically) and is_dataclass(source) and len(source) > 0  # type: ignore[arg-type]


@contextmanager
def evaluating(model: object) -> Iterator[None]:
    """Evaluation mode and no gradients inside; every module's own mode is restored behind it.

    Not `torch.inference_mode`: its tensors have no version, so a watch of a decode could not
    tell whether one was overwritten.
    """
    parts = model.modules() if isinstance(model, nn.Module) else ()
    with _changing_modes:
        changed = [part for part in parts if part.training or part in _evaluating]
        for part in changed:
            part.training = False
            _evaluating[part] = _evaluating.get(part, 0) + 1
    try:
        with torch.no_grad():
            yield
    finally:
        with _changing_modes:
            for part in changed:
                _evaluating[part] -= 1
                if not _evaluating[part]:
                    del _evaluating[part]
                    part.training = True


# Modules in evaluation for a while, and by how many decodes: the last to end gives a module its mode back, so that one
# thread does not switch dropout on in the decode of another.
_evaluating: dict[nn.Module, int] = {}
_changing_modes = Lock()


def per_row(limits: Limits, rows: int) -> list[int]:
    """The most tokens of every row, END among them."""
    if type(limits) is int and limits >= 1:
        return [limits] * rows
    if isinstance(limits, Tensor) and (limits.is_floating_point() or limits.dtype == torch.bool):
        raise RegardError(f"limits of type {limits.dtype}: give whole numbers of tokens")
    many = isinstance(limits, Tensor | np.ndarray)
    most = integers("limits", limits) if many else torch.tensor(whole("limits", limits), device="cpu")
    if most.ndim > 1 or (most.ndim == 1 and len(most) != rows):
        raise RegardError(
            f"limits of shape {list(most.shape)} for {rows} rows: give one number, or one a row"
        )
    if bool((most < 1).any()):
        raise RegardError(f"a limit of {int(most.min())} tokens: leave room for at least 1")
    each: list[int] = most.expand(rows).tolist()
    return each


def report_rows(model: object, texts: list[list[Hypothesis]], steps: int) -> None:
    """Give the observers of a model the rows of the best texts, so that they follow them through the steps."""
    best = [several[0] for several in texts if several]
    if observers and best and isinstance(model, nn.Module):
        notify_decoded(model, beams(best, steps=steps))


class SteppedDecode:
    """A decode of a model that has `start`, `step` and `pick`, one step after another."""

    def __init__(
        self,
        model: AnyModel,
        source: Any,
        make: MakeSearch,
        *,
        limits: Limits,
        row_keys: RowKeys | None = None,
    ) -> None:
        self._model = model
        self._state = model.start(source)
        first = self._state.first
        most = per_row(limits, len(first))
        self.search = make(most, capacity=min(_CAPACITY, max(most, default=1)), device=first.device)
        self.search.begin(first)
        # At first the texts of a source are equal: they are stepped as one row, and parted when they differ.
        self.search.parted = self.search.group == 1
        if row_keys is not None:
            self.search.use_row_keys(row_keys(len(most)))
        self.texts: list[list[Hypothesis]] = [[] for _ in most]
        self._at = torch.zeros(1, dtype=torch.long, device=first.device)
        self.steps = 0

    def step(self) -> bool:
        """One token more for every text that is not over; whether any is left."""
        search = self.search
        if not search.sources:
            return False
        if self.steps == search.capacity:
            search.grow()
        together = self.steps == 0 and search.group > 1
        tokens = search.tokens[:: search.group] if together else search.tokens
        # A copy: a model may keep its tokens, and the search writes the next ones over them.
        logits, self._state = self._model.step(tokens.clone(), self._state)
        if together:
            logits = logits.repeat_interleave(search.group, 0)
        parents = search.advance(logits, self._at)
        search.check(logits, self.steps)
        self._at += 1
        self.steps += 1
        over = search.over.tolist()
        # Copying what the others remember is worth it once a quarter has gone. A source that has reached its limit must
        # go at once: the model may have no position for another token.
        leave = 4 * sum(over) >= len(over) or search.limited(self.steps)
        places = [place for place, ended in enumerate(over) if not (ended and leave)]
        if len(places) < len(over):
            gone = [place for place, ended in enumerate(over) if ended]
            for place, texts in zip(gone, search.texts(gone), strict=True):
                self.texts[search.sources[place]] = texts
        if places and (len(places) < len(over) or parents is not None):
            index = torch.tensor(places, device=search.over.device)
            rows = index
            if together:
                rows = index.repeat_interleave(search.group)
            elif parents is not None:
                rows = (index[:, None] * search.group + parents[index]).flatten()
            self._state = self._state.pick(rows)
        if len(places) < len(over):
            search.keep(places, step=self.steps)
        return bool(places)
