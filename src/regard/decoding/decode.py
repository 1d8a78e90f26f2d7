"""Decoding: steps of a model and of a search in turns, until every text is over.

A model that has `start`, `step` and `pick` is stepped eagerly, and sources whose texts are over leave the batch. One that
also has a static cache keeps its shape on a GPU, see `static_decode`.
"""

from collections.abc import Callable, Hashable
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from regard.decoding.evaluating import check_model, evaluating
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.limits import Limits, per_row
from regard.decoding.search import Search
from regard.decoding.static_decode import static_decode, static_on
from regard.models.protocols import AnyModel

_CAPACITY = 64  # steps that an eager search has space for at first

MakeSearch = Callable[..., Search]  # of limits, capacity and device
RowKeys = Callable[[int], Int[Tensor, " rows"]]  # of the number of rows: the random keys of a sampling search


def decode(
    model: AnyModel,
    source: Any,
    make: MakeSearch,
    *,
    limits: Limits,
    key: tuple[Hashable, ...],  # names the search: equal keys make equal searches
    group: int = 1,
    keys: RowKeys | None = None,
) -> list[list[Hypothesis]]:
    """The texts of every row of the source, best first."""
    check_model(model)
    if isinstance(model, nn.Module) and static_on(model, source):
        found = static_decode(model, source, make, limits=limits, key=key, group=group, keys=keys)
        if found is not None:
            return found
    with evaluating(model):
        stepped = SteppedDecode(model, source, make, limits=limits, keys=keys)
        while stepped.step():
            pass
    return stepped.texts


class SteppedDecode:
    """A decode of a model that has `start`, `step` and `pick`, one step after another."""

    def __init__(
        self,
        model: AnyModel,
        source: Any,
        make: MakeSearch,
        *,
        limits: Limits,
        keys: RowKeys | None = None,
    ) -> None:
        self._model = model
        self._state = model.start(source)
        first = self._state.first
        most = per_row(limits, len(first), device=torch.device("cpu")).tolist()
        self.search = make(most, capacity=min(_CAPACITY, max(most, default=1)), device=first.device)
        self.search.begin(first)
        # At first the texts of a source are equal: they are stepped as one row, and parted when they differ.
        self.search.parted = self.search.group == 1
        if keys is not None:
            self.search.key(keys(len(most)))
        self.texts: list[list[Hypothesis]] = [[] for _ in most]
        self._at = torch.zeros(1, dtype=torch.long, device=first.device)
        self._steps = 0

    def step(self) -> bool:
        """One token more for every text that is not over; whether any is left."""
        search = self.search
        if not search.sources:
            return False
        if self._steps == search.capacity:
            search.grow()
        # A copy: a model may keep its tokens, and the search writes the next ones over them.
        together = self._steps == 0 and search.group > 1
        tokens = search.tokens[:: search.group] if together else search.tokens
        logits, self._state = self._model.step(tokens.clone(), self._state)
        if together:
            logits = logits.repeat_interleave(search.group, 0)
        parents = search.advance(logits, self._at)
        search.check(logits, self._steps)
        self._at += 1
        self._steps += 1
        over = search.over.tolist()
        # Copying what the others remember is worth it once a quarter has gone. A source that has reached its limit must
        # go at once: the model may have no position for another token.
        leave = 4 * sum(over) >= len(over) or search.limited(self._steps)
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
            search.keep(places, step=self._steps)
        return bool(places)
