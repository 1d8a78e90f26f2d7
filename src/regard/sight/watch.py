"""Watching a model: its attention calls, from outside, without changing a bit of its answer."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention.biases import TensorBias
from regard.attention.call import Call
from regard.attention.dispatch import AttentionObserver, observers, reason_of
from regard.errors import RegardError, warn
from regard.sight.callers import (
    ModuleNames,
    caller,
    choose_modules,
    current_backward,
    recomputing,
    refuse_captured,
)
from regard.sight.interpose import FUNCTIONS
from regard.sight.layer import Layer, check_question
from regard.sight.seen import Seen
from regard.sight.selection import Choice, select
from regard.sight.unseen import why_unseen

Question = str | tuple[str, *tuple[int, ...]]


@contextmanager
def watch(
    model: nn.Module,
    *,
    layers: Callable[[str], bool] | Sequence[str] | None = None,
    heads: Choice = None,
    batch: Choice = None,
    keep: Literal["calls", "evidence"] = "calls",
    ask: Sequence[Question] = ("entropy", "received"),
) -> Iterator[Seen]:
    """Keep the attention calls of a model while it runs.

        with watch(model) as seen:
            output = model(x)
        seen["encoder.0.attention"].entropy()

    A call is its query and key as they are, so looking costs memory linear in the length and no time; asking costs
    one more pass. `layers` chooses modules by the end of their path (or a function of the path), `heads` and `batch`
    choose within a call. With keep="evidence" the questions in `ask` ("entropy", ("top", 5), ("map", 64, 64)) are
    answered at once and the calls are dropped.

    Looking never stops a model. A call that cannot be understood is recorded with the reason, and a warning says so at
    the end; so it does when no call was seen at all.
    """
    if keep not in ("calls", "evidence"):
        raise RegardError(f"watch(keep={keep!r}): keep 'calls' or 'evidence'")
    if isinstance(ask, str):
        raise RegardError(f"watch(ask={ask!r}): give a list of questions, [{ask!r}]")
    for question in ask:
        check_question(question)
    names = ModuleNames(model)
    wanted = choose_modules(names.paths, layers)
    seen = Seen(model=model)
    watcher = _Watcher(
        seen,
        names,
        wanted,
        partial(select, batch=batch, heads=heads),
        ask if keep == "evidence" else None,
        follows=batch is None,
    )
    with FUNCTIONS.applied():
        observers.append(watcher)
        try:
            yield seen
        finally:
            observers.remove(watcher)
    said = watcher.blind_spots()
    if said:
        warn(said)


@dataclass(eq=False)
class _Watcher(AttentionObserver):
    seen: Seen
    names: ModuleNames
    wanted: frozenset[str]
    chosen: Callable[[Call], Call]
    ask: Sequence[Question] | None
    follows: bool  # whether calls have all rows of a decode
    # Modules that attended but were not wanted, in order.
    passed: dict[str, None] = field(default_factory=dict)
    backward: int = field(default_factory=current_backward)  # where the watch was opened

    def __post_init__(self) -> None:
        """Ask kernels for the log-sum-exp only if questions that need it are answered at once."""
        asked = {question if isinstance(question, str) else question[0] for question in self.ask or ()}
        self.wants_logsumexp = bool(asked - {"entropy", "logsumexp"})

    def place(self, within: str = "") -> str | None:
        name = caller(self.names, within)
        return None if name is None or recomputing(self.backward) else name  # its forward pass has been seen

    def covers(self, model: nn.Module) -> bool:
        return self.names.covers(model)

    def see(self, call: Call, name: str, logsumexp: Tensor | None) -> None:
        if not self._wanted(name):
            return
        try:
            layer = self._layer(name, call, logsumexp)
        except Exception as error:  # the model has done nothing wrong: it goes on
            layer = Layer.missed(name, reason_of(error))
        self.seen.layers.append(layer)

    def miss(self, reason: str, name: str) -> None:
        if self._wanted(name):
            self.seen.layers.append(Layer.missed(name, reason))

    def decoded(self, rows: Tensor) -> None:
        if self.follows:
            self.seen.decodes.append(rows)

    def blind_spots(self) -> str:
        """What a warning says about calls that were not seen or not understood; empty when there is nothing to say."""
        if not self.seen.layers:
            return why_unseen(self.seen.model, self.wanted, list(self.passed))
        missed = [layer for layer in self.seen.layers if not layer.understood]
        if not missed:
            return ""
        count = f"{len(missed)} of {len(self.seen.layers)} attention calls were not understood"
        return f"{count}; the first, of {missed[0].name}: {missed[0].reason}"

    def _wanted(self, name: str) -> bool:
        if name in self.wanted:
            return True
        self.passed.setdefault(name)
        return False

    def _layer(self, name: str, call: Call, logsumexp: Tensor | None) -> Layer:
        refuse_captured(name, call.query.device)
        with torch.no_grad():
            chosen = self.chosen(call)
            layer = Layer.of(name, _held(chosen), logsumexp if chosen is call else None)
            return layer if self.ask is None else _answered(layer, self.ask)


def _answered(layer: Layer, questions: Sequence[Question]) -> Layer:
    layer.ask(*questions)
    return replace(layer, call=None, _versions=(), _logsumexp=None)


def _held(call: Call) -> Call:
    """The call without its graph; tensors of inference mode are copied, since torch does not count their changes."""

    def own(tensor: Tensor) -> Tensor:
        return tensor.clone() if tensor.is_inference() else tensor.detach()

    bias = TensorBias(own(call.bias.tensor)) if isinstance(call.bias, TensorBias) else call.bias
    if bias is call.bias and not any(
        part.requires_grad or part.is_inference() for part in (call.query, call.key)
    ):
        return call  # as it is: making another takes longer than the rest of seeing it
    return replace(call, query=own(call.query), key=own(call.key), bias=bias)
