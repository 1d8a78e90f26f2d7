"""Running a model under the changes that the page asks for, and what each of its heads is worth."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.call import Call
from regard.data.batches import END, START, Batch, Pairs, Sequences
from regard.decoding.decode import evaluating
from regard.errors import RegardError
from regard.models.optimise import device_of
from regard.sight.explorer.example import Change, Panel
from regard.sight.interventions import (
    Intervention,
    drop_heads,
    forbid,
    importance,
    intervene,
    scale_head,
    uniform,
)


@contextmanager
def changed(model: nn.Module, changes: Sequence[Change]) -> Iterator[None]:
    """The model in evaluation, with its attention changed or as it is."""
    planned: dict[str, list[Intervention]] = {}
    for change in changes:
        planned.setdefault(change.layer, []).extend(_interventions(change))
    with evaluating(model):
        if not planned:
            yield
            return
        with intervene(model, planned):
            yield


def nats_lost(model: nn.Module, panel: Panel, logprob: Callable[[], float]) -> Float[Tensor, " heads"]:
    """How much lower a log-probability gets without each head of a layer."""

    def metric() -> float:
        with evaluating(model):
            return logprob()

    name = panel.layer.name
    return -importance(model, {name: panel.heads}, metric).change[name]


def _interventions(change: Change) -> list[Intervention]:
    match change.kind:
        case "drop":
            return [drop_heads(*_some_heads(change))]
        case "scale":
            return [scale_head(head, change.factor) for head in _some_heads(change)]
        case "uniform":
            return [uniform(heads=change.heads)]
    return [Intervention(before=lambda call: _forbidden(call, change))]


def _some_heads(change: Change) -> tuple[int, ...]:
    if not change.heads:
        raise RegardError(f"{change.kind} in {change.layer}: name at least one head")
    return change.heads


def _forbidden(call: Call, change: Change) -> Call:
    """The call with its pairs forbidden, as far as they exist: a text that is being written is still shorter."""
    queries = _inside(change.queries, call.extent.queries)
    keys = _inside(change.keys, call.extent.keys)
    if queries == [] or keys == []:
        return call
    return forbid(queries=queries, keys=keys, heads=change.heads).before(call)


def _inside(chosen: tuple[int, ...] | None, size: int) -> list[int] | None:
    return None if chosen is None else [each for each in chosen if each < size]


@dataclass(frozen=True, eq=False)
class UncachedText:
    """Sources and what was written about them, START first."""

    source: Any  # texts, pictures or recordings
    tokens: Int[Tensor, "rows n"]

    @property
    def first(self) -> Int[Tensor, " rows"]:
        """START, for every row."""
        return torch.full((len(self.source),), START, device=self.tokens.device)

    def pick(self, rows: Int[Tensor, " r"]) -> "UncachedText":
        """These rows, in this order."""
        tensors = {name: part[rows] for name, part in vars(self.source).items() if isinstance(part, Tensor)}
        return UncachedText(replace(self.source, **tensors), self.tokens[rows])


class Uncached(nn.Module):
    """A model without a KV cache, which reads all it has written again at every step.

    It is slower than the model's own steps, but every attention call is of the whole text so far: a position in the call
    is a position in the text, as a change of single pairs needs.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model: Any = model

    def start(self, source: Batch) -> UncachedText:
        """Nothing written yet."""
        device = device_of(self.model)
        return UncachedText(source, torch.empty(len(source), 0, dtype=torch.long, device=device))

    def step(
        self, tokens: Int[Tensor, " rows"], state: UncachedText
    ) -> tuple[Float[Tensor, "rows vocabulary"], UncachedText]:
        """The logits of what follows these tokens."""
        written = torch.cat([state.tokens, tokens[:, None]], dim=1)
        # The model shifts its target by one itself: START, what was written, and an END that is never read.
        target = torch.cat([written[:, 1:], torch.full_like(written[:, :1], END)], dim=1)
        full = torch.full_like(target[:, 0], target.shape[1])
        logits = self.model.logits(Pairs(state.source, Sequences(target, full)))
        return logits[:, -1], UncachedText(state.source, written)
