"""Watching a model: its attention calls, from outside, without changing a bit of its answer."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention.biases import TensorBias
from regard.attention.call import Call
from regard.attention.seams import Bystander, standing
from regard.sight.callers import caller, module_names, refuse_captured
from regard.sight.interpose import interposed
from regard.sight.layer import Layer
from regard.sight.seen import Seen
from regard.sight.selection import Choice, select

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
        seen["encoder.0.attention"].entropy

    A call is its query and key as they are, so looking costs memory linear in the length and no time; asking costs
    one more pass. `layers` chooses modules by the end of their path (or a function of the path), `heads` and `batch`
    choose within a call. With keep="evidence" the questions in `ask` ("entropy", ("top", 5), ("map", 64, 64)) are
    answered at once and the calls are let go.
    """
    names = module_names(model)
    wanted = layers if callable(layers) or layers is None else _ending_in(layers)
    seen = Seen(model=model)
    watcher = _Watcher(
        seen, names, wanted, partial(select, batch=batch, heads=heads), ask if keep == "evidence" else None
    )
    with interposed(), standing(watcher):
        yield seen


@dataclass(eq=False)
class _Watcher(Bystander):
    seen: Seen
    names: dict[int, str]
    wanted: Callable[[str], bool] | None
    chosen: Callable[[Call], Call]
    ask: Sequence[Question] | None

    def __post_init__(self) -> None:
        """Whoever asks later finds the log-sum-exp when he asks; only of who asks at once is it known that he will."""
        asked = {question if isinstance(question, str) else question[0] for question in self.ask or ()}
        self.hears = bool(asked - {"entropy", "logsumexp"})

    def see(self, call: Call, value: Tensor | None, within: str = "", level: Tensor | None = None) -> None:
        name = caller(self.names, within)
        if name is None or not (self.wanted is None or self.wanted(name)):
            return
        refuse_captured(name, call.query.device)
        with torch.no_grad():
            chosen = self.chosen(call)
            layer = Layer.of(name, _held(chosen), level if chosen is call else None)
            self.seen.layers.append(layer if self.ask is None else _answered(layer, self.ask))


def _answered(layer: Layer, questions: Sequence[Question]) -> Layer:
    layer.ask(*questions)
    return replace(layer, call=None, _versions=(), _level=None)


def _held(call: Call) -> Call:
    """The call without its graph; tensors of inference mode are copied, since nobody counts their changes."""

    def own(tensor: Tensor) -> Tensor:
        return tensor.clone() if tensor.is_inference() else tensor.detach()

    bias = TensorBias(own(call.bias.tensor)) if isinstance(call.bias, TensorBias) else call.bias
    if bias is call.bias and not any(
        part.requires_grad or part.is_inference() for part in (call.query, call.key)
    ):
        return call  # as it is: making another takes longer than the rest of seeing it
    return replace(call, query=own(call.query), key=own(call.key), bias=bias)


def _ending_in(ends: Sequence[str]) -> Callable[[str], bool]:
    chosen = [ends] if isinstance(ends, str) else list(ends)
    return lambda name: any(name == end or name.endswith("." + end) for end in chosen)
