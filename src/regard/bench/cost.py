"""What each kind of layer costs as sequences grow: time and memory, measured, beside what theory says."""

import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from regard.bench.layers import LayerKind
from regard.bench.measuring import Clock, measure, peak_megabytes, spread
from regard.bench.record import Setting
from regard.errors import RegardError

FITS = 4 * 2**30  # bytes: what would hold more is left out
WEIGHTS = 150 * 2**20  # bytes: a layer whose weights would take more is left out
COPIES = 16  # bytes for each number that theory says is held: in float32, about four times
LONG_END = 4  # exponents are fitted over lengths down to the longest over this


@dataclass(frozen=True, kw_only=True)
class Cost:
    """A layer at one length."""

    layer: str
    length: int
    milliseconds: float
    spread: tuple[float, float]  # tenth and ninetieth percentile
    megabytes: float  # the most that tensors held beyond input and weights
    operations: int  # of the forward pass, by the formula
    parameters: int  # counted


@dataclass(frozen=True, kw_only=True)
class Growth:
    """The exponents of n: fitted to what was measured, by the formula over the same lengths, and in the limit."""

    layer: str
    parameters: int  # counted, at the longest length
    parameter_order: str
    order: str
    sequential: str
    path: str
    time: float | None
    time_spread: tuple[float, float] | None
    time_formula: float | None
    time_limit: int
    memory: float | None
    memory_limit: int


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Everything that was measured."""

    width: int
    backward: bool
    costs: list[Cost]
    growths: list[Growth]

    @property
    def lengths(self) -> list[int]:
        """Those measured, the shortest first."""
        return sorted({cost.length for cost in self.costs})

    def of(self, layer: str) -> list[Cost]:
        """The costs of one layer, the shortest first."""
        return sorted((cost for cost in self.costs if cost.layer == layer), key=lambda cost: cost.length)


def fitted(lengths: Sequence[int], values: Sequence[float]) -> float | None:
    """The exponent e of values ≈ c · nᵉ: least squares of log value over log n, over the long end of the lengths.

    The long end is from a quarter of the longest on, where what does not grow matters least. None: fewer than two
    lengths are there.
    """
    chosen = [(n, value) for n, value in zip(lengths, values, strict=True) if n * LONG_END >= max(lengths)]
    if len(chosen) < 2 or min(value for _, value in chosen) <= 0:
        return None
    return statistics.linear_regression(
        [math.log(n) for n, _ in chosen], [math.log(value) for _, value in chosen]
    ).slope


def fitting(kinds: Sequence[LayerKind], lengths: Sequence[int], width: int) -> list[tuple[LayerKind, int]]:
    """Each kind with the lengths at which it can be measured."""
    wrong = next((n for n in lengths if n < 1), None)
    if wrong is not None or not lengths or not kinds or width < 1:
        raise RegardError(
            f"width {width}, lengths {', '.join(map(str, lengths)) or 'none'}, {len(kinds)} layers: at least one of "
            "each, all from 1 on"
        )
    found = [
        (kind, n)
        for kind in kinds
        for n in sorted(set(lengths))
        if COPIES * kind.held(n, width) <= FITS and 4 * kind.parameters(n, width) <= WEIGHTS
    ]
    without = next((kind for kind in kinds if not any(kind is each for each, _ in found)), None)
    if without is not None:
        raise RegardError(
            f"{without.name} at length {min(lengths)} and width {width} would hold more than {FITS >> 30} GB, or more than "
            f"{WEIGHTS >> 20} MB of weights: choose shorter lengths"
        )
    return found


def measure_costs(
    kinds: Sequence[LayerKind],
    lengths: Sequence[int],
    *,
    width: int = 256,
    setting: Setting,
    backward: bool = False,
    clock: Clock = time.perf_counter,
) -> Costs:
    """Time and memory of every kind at every length, a sequence at a time in float32, all in one interleaved run."""
    chosen, device = fitting(kinds, lengths, width), setting.device
    layers = {(kind.name, n): kind.make(n, width).to(device).eval() for kind, n in chosen}
    inputs = {
        n: torch.randn(1, n, width, device=device, requires_grad=backward) for n in {n for _, n in chosen}
    }
    runs = {(kind.name, n): partial(_run, layers[kind.name, n], inputs[n], backward) for kind, n in chosen}
    times = measure(runs, setting.rounds, device, clock=clock)
    costs = [
        Cost(
            layer=kind.name,
            length=n,
            milliseconds=statistics.median(times[kind.name, n]),
            spread=spread(times[kind.name, n]),
            megabytes=peak_megabytes(runs[kind.name, n], device),
            operations=kind.operations(n, width),
            parameters=sum(weight.numel() for weight in layers[kind.name, n].parameters()),
        )
        for kind, n in chosen
    ]
    found = Costs(width=width, backward=backward, costs=costs, growths=[])
    for kind in kinds:
        each = found.of(kind.name)
        rounds = [times[kind.name, cost.length] for cost in each]
        found.growths.append(_growth(kind, each, rounds))
    return found


def _run(layer: nn.Module, x: Tensor, backward: bool) -> None:
    with torch.set_grad_enabled(backward):
        y = layer(x)
        if backward:
            torch.autograd.grad(y.sum(), [x, *layer.parameters()])


def _growth(kind: LayerKind, costs: list[Cost], rounds: list[list[float]]) -> Growth:
    """Fitted in every round, so that the exponent has a spread too."""
    lengths = [cost.length for cost in costs]
    times = [fitted(lengths, each) for each in zip(*rounds, strict=True)]
    known = [time for time in times if time is not None]
    return Growth(
        layer=kind.name,
        parameters=costs[-1].parameters,
        parameter_order=kind.parameter_order,
        order=kind.order,
        sequential=kind.sequential,
        path=kind.path,
        time=statistics.median(known) if known else None,
        time_spread=spread(known) if known else None,
        time_formula=fitted(lengths, [cost.operations for cost in costs]),
        time_limit=kind.exponent,
        memory=fitted(lengths, [cost.megabytes for cost in costs]),
        memory_limit=kind.held_exponent,
    )
