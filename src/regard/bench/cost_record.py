"""What layers cost, as tables, as a picture and as CSV."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from regard.bench.cost import FITS, WEIGHTS, Cost, Costs, Growth
from regard.bench.layers import KERNEL, WINDOW, LayerKind
from regard.bench.measuring import load
from regard.bench.record import Record
from regard.bench.tables import Table, middle, near, short
from regard.sight.pictures.chart import Chart, Series
from regard.sight.pictures.scene import Panels


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
            columns=("layer", "operations", "sequential", "longest path", "parameters", "counted"),
            rows=[
                [g.layer, g.order, g.sequential, g.path, g.parameter_order, f"{g.parameters:,}"]
                for g in found.growths
            ],
            names=5,
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
    "positions farthest apart. Parameters are counted at the longest length that was measured.",
    "An exponent is the slope of log time over log n, by least squares over the lengths from a quarter of the longest "
    "on, fitted in every interleaved round: median (tenth to ninetieth percentile). By formula: the same fit to the "
    "count of operations.",
    "Batch 1, float32; ± is half of what lies between those percentiles. Memory is what tensors held beyond input and "
    f"weights. Empty: it would hold more than {FITS >> 30} GB, or more than {WEIGHTS >> 20} MB of weights.",
)


def picture(found: Costs, kinds: Sequence[LayerKind]) -> Panels:
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
        "layer,length,width,backward,milliseconds,milliseconds_10th,milliseconds_90th,megabytes,operations,parameters"
    ]
    for cost in found.costs:
        low, high = cost.spread
        lines.append(
            f"{cost.layer},{cost.length},{found.width},{int(found.backward)},{cost.milliseconds:.4f},{low:.4f},"
            f"{high:.4f},{cost.megabytes:.4f},{cost.operations},{cost.parameters}"
        )
    return "\n".join(lines) + "\n"


def record_of(found: Costs, kinds: Sequence[LayerKind], about: Mapping[str, object]) -> Record:
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
