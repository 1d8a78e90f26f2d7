"""What each kind of layer costs as sequences grow: time and memory, measured, beside what theory says."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial

import torch
from torch import Tensor, nn

from regard.bench.layers import KERNEL, WINDOW, Kind
from regard.bench.measuring import load, measure, peak_megabytes, spread
from regard.bench.record import Record, Setting
from regard.bench.tables import Table, middle, near, short
from regard.errors import RegardError
from regard.sight.pictures.chart import Chart
from regard.sight.pictures.panels import Panels
from regard.sight.pictures.plot import Series

FITS = 4 * 2**30  # bytes: what would hold more is left out
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


@dataclass(frozen=True, kw_only=True)
class Growth:
    """The exponents of n: fitted to what was measured, by the formula over the same lengths, and in the limit."""

    layer: str
    parameters: int
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


def fitting(kinds: Sequence[Kind], lengths: Sequence[int], width: int) -> list[tuple[Kind, int]]:
    """Each kind with the lengths at which it can be measured."""
    wrong = next((n for n in lengths if n < 1), None)
    if wrong is not None or not lengths or not kinds or width < 1:
        raise RegardError(
            f"width {width}, lengths {', '.join(map(str, lengths)) or 'none'}, {len(kinds)} layers: at least one of "
            "each, all from 1 on"
        )
    found = [
        (kind, n) for kind in kinds for n in sorted(set(lengths)) if COPIES * kind.held(n, width) <= FITS
    ]
    without = next((kind for kind in kinds if not any(kind is each for each, _ in found)), None)
    if without is not None:
        raise RegardError(
            f"{without.name} at length {min(lengths)} and width {width} would hold more than {FITS >> 30} GB: choose "
            "shorter lengths"
        )
    return found


def measure_costs(
    kinds: Sequence[Kind],
    lengths: Sequence[int],
    *,
    width: int = 256,
    setting: Setting,
    backward: bool = False,
) -> Costs:
    """Time and memory of every kind at every length, a sequence at a time in float32, all in one interleaved run."""
    chosen, device = fitting(kinds, lengths, width), setting.device
    layers = {kind.name: kind.make(width).to(device).eval() for kind in kinds}
    inputs = {
        n: torch.randn(1, n, width, device=device, requires_grad=backward) for n in {n for _, n in chosen}
    }
    runs = {(kind.name, n): partial(_run, layers[kind.name], inputs[n], backward) for kind, n in chosen}
    times = measure(runs, setting.rounds, device)
    costs = [
        Cost(
            layer=kind.name,
            length=n,
            milliseconds=statistics.median(times[kind.name, n]),
            spread=spread(times[kind.name, n]),
            megabytes=peak_megabytes(runs[kind.name, n], device),
            operations=kind.operations(n, width),
        )
        for kind, n in chosen
    ]
    found = Costs(width=width, backward=backward, costs=costs, growths=[])
    for kind in kinds:
        each = found.of(kind.name)
        rounds = [times[kind.name, cost.length] for cost in each]
        found.growths.append(_growth(kind, each, rounds, width, layers[kind.name]))
    return found


def _run(layer: nn.Module, x: Tensor, backward: bool) -> None:
    with torch.set_grad_enabled(backward):
        y = layer(x)
        if backward:
            torch.autograd.grad(y.sum(), [x, *layer.parameters()])


def _growth(kind: Kind, costs: list[Cost], rounds: list[list[float]], width: int, layer: nn.Module) -> Growth:
    """Fitted in every round, so that the exponent has a spread too."""
    lengths = [cost.length for cost in costs]
    times = [fitted(lengths, each) for each in zip(*rounds, strict=True)]
    known = [time for time in times if time is not None]
    return Growth(
        layer=kind.name,
        parameters=sum(weight.numel() for weight in layer.parameters()),
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


def tables(found: Costs) -> list[Table]:
    """What theory says of each layer, how it grew, then its time and memory at every length."""
    what = "forward and backward" if found.backward else "forward"
    columns = ("layer", *(f"{n:,}" for n in found.lengths))
    by = {(cost.layer, cost.length): cost for cost in found.costs}

    def rows(said: Callable[[Cost], str]) -> list[list[str]]:
        names = (growth.layer for growth in found.growths)
        return [[k, *(said(by[k, n]) if (k, n) in by else "" for n in found.lengths)] for k in names]

    return [
        Table(
            title=f"In theory, at length n and width d = {found.width}",
            columns=("layer", "operations", "sequential", "longest path", "parameters"),
            rows=[[g.layer, g.order, g.sequential, g.path, f"{g.parameters:,}"] for g in found.growths],
            names=4,
        ),
        Table(
            title=f"Exponents of n, {what}",
            columns=("layer", "time", "by formula", "limit", "memory", "limit"),
            rows=[_exponents(growth) for growth in found.growths],
        ),
        Table(title="Milliseconds", columns=columns, rows=rows(lambda c: near(c.milliseconds, c.spread))),
        Table(title="Peak megabytes", columns=columns, rows=rows(lambda c: short(c.megabytes))),
    ]


def _exponents(growth: Growth) -> list[str]:
    known = growth.time is not None and growth.time_spread is not None
    time = middle(growth.time, growth.time_spread) if known else "–"  # type: ignore[arg-type]
    formula, memory = (
        "–" if each is None else f"{each:.2f}" for each in (growth.time_formula, growth.memory)
    )
    return [growth.layer, time, formula, str(growth.time_limit), memory, str(growth.memory_limit)]


NOTES = (
    f"w = {WINDOW}, k = {KERNEL}. Sequential: operations that wait for one another; path: steps between the two "
    "positions farthest apart.",
    "An exponent is the slope of log time over log n, by least squares over the lengths from a quarter of the longest "
    "on, fitted in every interleaved round: median (tenth to ninetieth percentile). By formula: the same fit to the "
    "count of operations.",
    "Batch 1, float32; ± is half of what lies between those percentiles. Memory is what tensors held beyond input and "
    f"weights. Empty: it would hold more than {FITS >> 30} GB.",
)


def picture(found: Costs, kinds: Sequence[Kind]) -> Panels:
    """Time and memory over length, both logarithmic; theory is the pale line through each layer's longest length."""
    held = {kind.name: kind.held_exponent for kind in kinds}
    time, memory = [], []
    for growth in found.growths:
        name, costs = growth.layer, found.of(growth.layer)
        last = costs[-1]
        formula = [(c.length, last.milliseconds * c.operations / last.operations) for c in costs]
        power = [(c.length, last.megabytes * (c.length / last.length) ** held[name]) for c in costs]
        time += [
            Series(name="", points=formula, look="thin"),
            Series(name=_named(name, growth.time), points=[(c.length, c.milliseconds) for c in costs]),
        ]
        memory += [
            Series(name="", points=power, look="thin"),
            Series(name=_named(name, growth.memory), points=[(c.length, c.megabytes) for c in costs]),
        ]
    title = "What a layer costs as sequences grow"
    note = f"width {found.width}, {'forward and backward' if found.backward else 'forward'}; pale lines: theory, through the longest length"
    across = "length n"
    return Panels(
        title=title,
        note=note,
        parts=[
            Chart(y="milliseconds", series=time, log=True, log_x=True, x=across, height=300.0),
            Chart(y="peak megabytes", series=memory, log=True, log_x=True, x=across, height=300.0),
        ],
    )


def _named(name: str, exponent: float | None) -> str:
    return name if exponent is None else f"{name}, n^{exponent:.2f}"


def as_csv(found: Costs) -> str:
    """A line a layer and length."""
    lines = [
        "layer,length,width,backward,milliseconds,milliseconds_10th,milliseconds_90th,megabytes,operations"
    ]
    for cost in found.costs:
        low, high = cost.spread
        lines.append(
            f"{cost.layer},{cost.length},{found.width},{int(found.backward)},{cost.milliseconds:.4f},{low:.4f},"
            f"{high:.4f},{cost.megabytes:.4f},{cost.operations}"
        )
    return "\n".join(lines) + "\n"


def record_of(found: Costs, kinds: Sequence[Kind], about: Mapping[str, object]) -> Record:
    """Everything as it is written down."""
    return Record(
        name="cost",
        title="What a layer costs as sequences grow",
        about={**about, "load at end": load()},
        notes=NOTES,
        tables=tables(found),
        figures=asdict(found),
        pictures={"cost": picture(found, kinds)},
        more={"cost.csv": as_csv(found)},
    )
