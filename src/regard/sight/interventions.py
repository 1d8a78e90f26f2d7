"""Interventions: change what a model attends to, from outside, and see what becomes of its answer."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.biases import Bias
from regard.attention.call import Call
from regard.attention.masks import Mask
from regard.attention.reach import Extent, Reach
from regard.attention.scores import Additive
from regard.data.given import instance, number, whole
from regard.errors import RegardError
from regard.sight.callers import ModuleNames, ending_in, no_module
from regard.sight.forward_scope import ForwardObserver
from regard.sight.selection import Choice, positions


@dataclass(frozen=True)
class Intervention:
    """A change to a call before it is computed, and to its output [..., heads, queries, width] after."""

    before: Callable[[Call], Call] = lambda call: call
    after: Callable[[Tensor], Tensor] = lambda output: output


def drop_heads(*heads: int) -> Intervention:
    """Set the output of these heads to zero."""
    for head in heads:
        whole("head", head)
    return Intervention(after=lambda output: _scaled(output, heads, 0.0))


def scale_head(head: int, factor: float) -> Intervention:
    """Multiply the output of this head."""
    whole("head", head)
    number("factor", factor)
    return Intervention(after=lambda output: _scaled(output, (head,), factor))


def forbid(*, queries: Choice = None, keys: Choice = None, heads: Choice = None) -> Intervention:
    """These queries may not look at these keys, in these heads; None is all of them."""

    def before(call: Call) -> Call:
        barrier = ~_Rectangle(queries, keys, heads, call.query.shape[:-2])
        return replace(call, mask=barrier if call.mask is None else call.mask & barrier)

    return Intervention(before=before)


def uniform(*, heads: Choice = None) -> Intervention:
    """Every key that may be seen gets the same weight: what remains of a head that no longer chooses."""

    def before(call: Call) -> Call:
        additive, index = isinstance(call.score, Additive), None
        if additive and heads is not None:
            raise RegardError("uniform(heads=…) under the additive score: make all heads uniform, or none")
        if heads is not None:
            index = torch.tensor(positions(heads, call.query.shape[-3], "head"), device=call.query.device)
        flat = None if call.bias is None else _Flat(call.bias, index)
        if additive:
            return replace(call, scale=0.0, bias=flat)
        # A query of zeros scores 0 with every key.
        zeros = torch.zeros_like(call.query) if index is None else call.query.index_fill(-3, index, 0.0)
        return replace(call, query=zeros, bias=flat)

    return Intervention(before=before)


@contextmanager
def intervene(
    model: nn.Module, changes: Mapping[str, Intervention | Sequence[Intervention]]
) -> Iterator[None]:
    """Run a model with its attention changed.

        with intervene(model, {"decoder.3.cross": drop_heads(2)}):
            output = model(x)

    Modules are named by their path or the end of it. A module that never attends meanwhile is an error: the change
    did not happen. Only this model is changed, and only in this thread; and what was checkpointed meanwhile is
    recomputed with the same changes, whenever and wherever its backward pass runs.
    """
    names = ModuleNames(model)
    wanted = "give changes by the names of modules, {'encoder.0.attention': drop_heads(2)}"
    instance("changes", changes, Mapping, wanted)
    planned = {_resolve(end, names.paths): _several(change) for end, change in changes.items()}
    changer = _Changer(names, planned)
    changer.start()
    try:
        yield
    finally:
        changer.end()
    missed = [name for name in planned if name not in changer.reached]
    if missed:
        raise RegardError(
            f"{', '.join(missed)} did not attend in this thread while it was to be changed: nothing was changed there"
        )


def _several(change: Any) -> list[Intervention]:
    several, wanted = (
        change if isinstance(change, list | tuple) else [change],
        "give drop_heads(…), forbid(…) or another",
    )
    return [instance("change", each, Intervention, wanted) for each in several]


class _Changer(ForwardObserver):
    def __init__(self, names: ModuleNames, planned: dict[str, list[Intervention]]) -> None:
        super().__init__(names, planned)
        self.planned = planned
        self.reached: set[str] = set()

    def before(self, call: Call, name: str) -> Call:
        if name in self.planned:
            self.reached.add(name)
        for change in self.planned.get(name, []):
            call = change.before(call)
        return call

    def miss(self, reason: str, name: str) -> None:
        if name in self.planned:
            raise RegardError(f"{name} attends in a way that cannot be changed: {reason}")

    def after(self, output: Tensor, name: str) -> Tensor:
        for change in self.planned.get(name, []):
            output = change.after(output)
        return output


@dataclass(frozen=True, kw_only=True)
class Importance:
    """How a metric changes when each head is dropped: `change[name][head]`, beside its value with all heads."""

    metric: float
    change: dict[str, Float[Tensor, " heads"]]

    def ranked(self) -> list[tuple[str, int, float]]:
        """(module, head, change), the largest change first."""
        rows = [
            (name, head, float(c)) for name, changes in self.change.items() for head, c in enumerate(changes)
        ]
        return sorted(rows, key=lambda row: -abs(row[2]))


def importance(
    model: nn.Module, heads: Mapping[str, int], metric: Callable[[], float | Tensor]
) -> Importance:
    """Drop one head after another, of modules with so many heads each, and measure. `metric` runs the model."""
    whole = float(metric())
    change = {}
    for name, count in heads.items():
        rows = []
        for head in range(count):
            with intervene(model, {name: drop_heads(head)}):
                rows.append(float(metric()) - whole)
        change[name] = torch.tensor(rows)
    return Importance(metric=whole, change=change)


def _scaled(output: Tensor, heads: Sequence[int], factor: float) -> Tensor:
    chosen = positions(heads, output.shape[-3], "head")
    factors = torch.ones(output.shape[-3], dtype=output.dtype, device=output.device)
    factors[chosen] = factor
    return output * factors[:, None, None]


def _resolve(end: str, names: list[str]) -> str:
    found = ending_in(end, names)
    if len(found) == 1 or end in found:
        return end if end in found else found[0]
    if found:
        raise RegardError(f"{end!r} could be {', '.join(found[:6])}: give more of its path")
    raise RegardError(no_module(end, names))


@dataclass(frozen=True, eq=False)
class _Rectangle(Mask):
    queries: Choice
    keys: Choice
    heads: Choice
    batch: tuple[int, ...]

    def block(self, rows: Tensor, columns: Tensor, extent: Extent) -> Tensor:
        down = _among(rows, positions(self.queries, extent.queries, "query"))
        across = _among(columns, positions(self.keys, extent.keys, "key"))
        both = down[:, None] & across
        if self.heads is None:
            return both
        heads = torch.zeros(self.batch[-1], dtype=torch.bool, device=rows.device)
        heads[positions(self.heads, self.batch[-1], "head")] = True
        return (heads[:, None, None] & both).reshape(*([1] * (len(self.batch) - 1)), -1, *both.shape)


@dataclass(frozen=True, eq=False)
class _Flat(Bias):
    """A bias that only forbids: its large negative numbers stay, all others become 0, in some heads or in all."""

    bias: Bias
    heads: Tensor | None

    @property
    def learned(self) -> bool:
        return self.bias.learned

    def reach(self, extent: Extent) -> Reach | None:
        return self.bias.reach(extent)

    def block(self, rows: Tensor, columns: Tensor, extent: Extent) -> Tensor:
        matrix = self.bias.block(rows, columns, extent)
        flat = torch.where(matrix < _FORBIDS, matrix, 0.0)
        if self.heads is None:
            return flat
        if matrix.ndim == 2 or matrix.shape[-3] == 1:
            raise RegardError(
                "uniform(heads=…) with a bias that all heads share: make all heads uniform, or none"
            )
        return matrix.index_copy(-3, self.heads, flat.index_select(-3, self.heads))


_FORBIDS = -1e4  # some models mask with the least number of their dtype, or with −10000, rather than with −∞


def _among(positions_: Tensor, chosen: list[int]) -> Tensor:
    return torch.isin(positions_, torch.tensor(chosen, device=positions_.device))
