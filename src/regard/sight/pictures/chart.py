"""Charts: series of numbers as lines and dots between two axes, each named where it ends."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from rich.console import RenderableType

from regard.errors import RegardError
from regard.sight.pictures.colours import FAINT, HATCH, HIDDEN, HUES, INK, PAPER, Colour
from regard.sight.pictures.png import length
from regard.sight.pictures.scene import (
    MARGIN,
    Box,
    Circle,
    Drawing,
    Label,
    Mark,
    Scene,
    Stroke,
    head,
    page,
    plain,
)

AxisKind = Literal["plain", "log", "percent"]

_WIDE = 0.06  # of a constant: what its axis spans on each side of it
_SAME = 1e-12  # of the largest value: differences up to this are rounding
_STEPS = (1, 2, 3, 5, 10, 20, 50, 100, 200, 1000)  # powers of ten from a tick to the next
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high` with its ticks."""

    low: float
    high: float
    ticks: tuple[float, ...]
    kind: AxisKind = "plain"

    def at(self, value: float) -> float:
        """Where a value is, 0 at the low end and 1 at the high one."""
        low, high = self.low, self.high
        if self.kind == "log":
            low, high, value = math.log10(low), math.log10(high), math.log10(value)
        # Halves, since the ends may be as far apart as floats go.
        return (value / 2 - low / 2) / (high / 2 - low / 2)

    def names(self) -> tuple[str, ...]:
        """Each tick, all written in one way."""
        if self.kind == "log":
            return tuple(map(_on_log, self.ticks))
        if self.kind == "percent":
            return tuple(f"{name} %" for name in _alike([100 * tick for tick in self.ticks]))
        return tuple(_alike(self.ticks))


def axis(values: Sequence[float], *, kind: AxisKind = "plain", count: int = 5, tight: bool = False) -> Axis:
    """An axis over finite values with about `count` ticks. A `tight` one ends at the values, others at ticks."""
    low, high = min(values), max(values)
    if kind == "log":
        found = _log_axis(low, high, count)
        between = tuple(tick for tick in found.ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9))
        tight = tight and high > low
        return replace(found, low=low, high=high, ticks=between or (low, high)) if tight else found
    size = max(abs(low), abs(high))
    constant = high / 2 - low / 2 <= max(_SAME * size, 1e-290)
    if constant and tight:
        room = max(1.0, _WIDE * size)
        return Axis(low - room, low + room, (low,), kind)
    if constant:
        room = _WIDE * size if size > 1e-280 else 0.5
        low, high = max(low - room, -1.7e308), min(high + room, 1.7e308)
        if kind == "percent" and 0 <= min(values) <= max(values) <= 1:
            low, high = max(0.0, low), min(1.0, high)
    ticks = ticks_over(low, high, count=count, outward=not tight)
    return Axis(min(low, *ticks[:1]), max(high, *ticks[-1:]), tuple(ticks), kind)


def ticks_over(low: float, high: float, *, count: int, outward: bool = False) -> list[float]:
    """Multiples of 1, 2 or 5 × 10ⁿ between low and high, about `count`; `outward` also those just beyond."""
    rough = (high / 2 - low / 2) / max(1, count - 1) * 2
    power = math.floor(math.log10(rough))
    steps = [float(f"{factor}e{power}") for factor in (1, 2, 5, 10)]
    step = min(steps, key=lambda each: abs(math.log(each / rough)))
    slack = -1e-9 if outward else 1e-9
    down, up = (math.floor, math.ceil) if outward else (math.ceil, math.floor)
    numbers = range(down(low / step - slack), up(high / step + slack) + 1)
    ticks = [float(f"{number * step:.12g}") for number in numbers]  # 0.30000000000000004 is 0.3
    return [tick for tick in ticks if math.isfinite(tick)]


def _log_axis(low: float, high: float, count: int) -> Axis:
    """Powers of ten, thinned out where there are many; over two of them or less also 2 and 5 times each."""
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    if last - first <= 2:
        marks = [float(f"{factor}e{power}") for power in range(first - 1, last + 1) for factor in (1, 2, 5)]
        marks.append(float(f"1e{last + 1}"))
        start = max(mark for mark in marks if mark <= low * (1 + 1e-9))
        end = min(mark for mark in marks if mark >= high * (1 - 1e-9) and mark > start)
        ticks = tuple(mark for mark in marks if start <= mark <= end)
        return Axis(min(start, low), max(end, high), ticks, "log")
    first, last = max(first, -307), min(last, 308)
    step = next(each for each in _STEPS if each * max(1, count) >= last - first)
    ticks = tuple(float(f"1e{power}") for power in range(-(-first // step) * step, last + 1, step))
    return Axis(min(low, float(f"1e{first}")), max(high, float(f"1e{last}")), ticks, "log")


def _alike(values: Sequence[float]) -> list[str]:
    """Numbers of one axis with equally many decimals, and one power of ten where they are huge or tiny."""
    largest = max(map(abs, values), default=0.0)
    step = min((abs(b - a) for a, b in pairwise(values)), default=0.0)
    power = math.floor(math.log10(largest)) if largest else 0
    raised = ""
    if not -4 < power < 6:
        # Mantissas, since 10 to the power may be no float.
        split = [f"{value:e}".split("e") for value in values]
        values = [float(part) * 10.0 ** (int(own) - power) for part, own in split]
        step = step / 10.0**power if step else 0.0
        raised, power = f"×10{str(power).translate(_RAISED)}", 2
    # As many decimals as keep multiples of the step apart.
    digits = min(8, max(0, -math.floor(math.log10(step) + 1e-9))) if step else max(0, 5 - power)
    names = [f"{value:,.{digits}f}" for value in values]
    names = [name.rstrip("0").rstrip(".") if "." in name and not step else name for name in names]
    return [
        name.replace("-", "−") + raised if value else "0" for name, value in zip(names, values, strict=True)
    ]


def _on_log(value: float) -> str:
    """A tick of a logarithmic axis: plain near 1, a power of ten far away."""
    power = math.floor(math.log10(value) + 1e-9)
    if -4 < power < 5:
        return f"{value:,.{max(0, -power)}f}"
    factor = round(value / 10.0**power)
    return ("" if factor == 1 else f"{factor}×") + f"10{str(power).translate(_RAISED)}"


Point = tuple[float, float | None]
Place = tuple[float, float]

NUMBERS = 11.5  # the size of the numbers along the axes
DASHES: tuple[tuple[float, ...], ...] = (
    (), (7, 5), (1, 4.5), (9, 4, 1, 4), (14, 5), (4, 4), (12, 4, 1, 4, 1, 4), (1, 9),
)  # fmt: skip
_RADIUS = 3.1
_MANY = 2000  # points of a line: beyond, several share a column of pixels


@dataclass(frozen=True, kw_only=True, eq=False)
class Series:
    """Points (x, y) in the order of x. A y that is None or not finite is a gap.

    "thin" is a pale line behind the others, without a name: what is drawn smoothed in the next series, whose
    colour it has.
    """

    name: str
    points: Sequence[Point]
    look: Literal["line", "points", "thin"] = "line"

    def runs(self) -> list[list[Place]]:
        """The points between gaps."""
        found: list[list[Place]] = [[]]
        for x, y in self.points:
            if y is not None and math.isfinite(x) and math.isfinite(y):
                found[-1].append((float(x), float(y)))
            elif found[-1]:
                found.append([])
        return [run for run in found if run]


@dataclass(frozen=True, kw_only=True)
class Plot:
    """The rectangle between the axes."""

    left: float
    top: float
    width: float
    height: float
    across: Axis
    up: Axis

    def place(self, x: float, y: float) -> Place:
        """Where a point is drawn."""
        return self.left + self.width * self.across.at(x), self.top + self.height * (1 - self.up.at(y))

    def grid(self) -> list[Mark]:
        """A line for each tick of y, a short one for each of x, and their numbers."""
        marks: list[Mark] = []
        right, bottom = self.left + self.width, self.top + self.height
        for tick, name in zip(self.up.ticks, self.up.names(), strict=True):
            y = self.place(self.across.low, tick)[1]
            marks.append(Stroke(((self.left, y), (right, y)), 1.0, HIDDEN))
            marks.append(Label(self.left - 8, y, name, NUMBERS, FAINT, anchor="right"))
        marks.append(Stroke(((self.left, bottom), (right, bottom)), 1.0, HATCH))
        for tick, name in zip(self.across.ticks, self.across.names(), strict=True):
            x = self.place(tick, self.up.low)[0]
            marks.append(Stroke(((x, bottom), (x, bottom + 4)), 1.0, HATCH))
            marks.append(Label(x, bottom + 14, name, NUMBERS, FAINT, anchor="middle"))
        return marks

    def drawn(self, series: Series, number: int) -> list[Mark]:
        """A series as lines and dots."""
        marks: list[Mark] = []
        ink = HUES[number]
        for run in series.runs():
            places = _thinned([self.place(*point) for point in run])
            if series.look == "points":
                marks.append(Stroke(tuple(places), 1.2, _pale(ink, 0.45)))
                marks += [symbol(place, number) for place in places]
            elif len(places) == 1:
                if series.look == "line":
                    marks.append(symbol(places[0], number))
            elif series.look == "thin":
                marks.append(Stroke(tuple(places), 1.0, _pale(ink, 0.35)))
            else:
                dashes = DASHES[number]
                marks.append(Stroke(tuple(places), 2.0, ink, dashes=dashes, said=plain(series.name, 32)))
        return [mark for mark in marks if not isinstance(mark, Stroke) or len(mark.places) > 1]


def symbol(place: Place, number: int) -> Circle | Box:
    """The point of a series: round or square, full or hollow."""
    x, y, ink = *place, HUES[number % len(HUES)]
    fill = PAPER if number % 4 >= 2 else ink
    if number % 2 == 0:
        return Circle(x=x, y=y, radius=_RADIUS - 0.8, fill=fill, edge=ink, thick=1.6)
    side = 1.8 * _RADIUS
    return Box(x=x - side / 2, y=y - side / 2, width=side, height=side, fill=fill, edge=ink, thick=1.6)


def _thinned(places: list[Place]) -> list[Place]:
    """Of many places in one column of pixels, the first, the highest, the lowest and the last."""
    if len(places) < _MANY:
        return places
    columns: dict[int, list[Place]] = {}
    for place in places:
        columns.setdefault(round(2 * place[0]), []).append(place)
    kept: list[Place] = []
    for column in columns.values():
        ends = {0, len(column) - 1}
        by_height = sorted(range(len(column)), key=lambda index: column[index][1])
        kept += [column[index] for index in sorted({*ends, by_height[0], by_height[-1]})]
    return kept


def _pale(ink: Colour, strength: float) -> Colour:
    """An ink thinned with paper. Not see-through: the pieces of a line would be seen where they meet."""
    red, green, blue = (round(255 + strength * (each - 255)) for each in ink)
    return red, green, blue


_TEXT = 13.0
_GUTTER = 46.0  # the least room for the numbers on the left, so that charts under one another are in line
_ROW = 19.0  # between two names
_SAMPLE = 22.0  # of a line, beside its name


@dataclass(frozen=True, kw_only=True, eq=False)
class Chart(Drawing):
    """Some series over one pair of axes. `percent` shows 0.5 as 50 %; `log` has powers of ten equally far apart."""

    title: str = ""
    x: str = ""
    y: str = ""
    series: Sequence[Series]
    log: bool = False
    log_x: bool = False  # the axis of x too
    percent: bool = False
    note: str = ""
    width: float = 560.0  # of the plot alone
    height: float = 260.0
    across: tuple[float, float] | None = None  # the ends of the axis of x, where charts share it

    def __post_init__(self) -> None:
        if self.log and self.percent:
            raise RegardError("log=True and percent=True: an axis has one of them")
        if len(self.named()) > len(HUES):
            raise RegardError(f"{len(self.named())} series: a chart keeps at most {len(HUES)} apart")
        xs, ys = self._values()
        if not xs:
            name = self.title or self.y
            raise RegardError(f"the chart {name!r} has no point to draw: every value is missing")
        for name, log, values in (("log", self.log, ys), ("log_x", self.log_x, xs)):
            if log and min(values) <= 0:
                least = f"{name}=True with a value of {min(values):g}"
                raise RegardError(f"{least}: a logarithmic axis has positive values only")

    def named(self) -> list[Series]:
        """The series with a name of their own, in the order of their colours."""
        return [series for series in self.series if series.look != "thin"]

    def axes(self) -> tuple[Axis, Axis]:
        """Those of x and of y."""
        xs, ys = self._values()
        kind: AxisKind = "log" if self.log else "percent" if self.percent else "plain"
        along: AxisKind = "log" if self.log_x else "plain"
        across = axis(self.across or xs, kind=along, count=max(2, round(self.width / 90)), tight=True)
        return across, axis(ys, kind=kind, count=max(3, round(self.height / 55)))

    def scene(self) -> Scene:
        """Title, the name of y, the plot with the names of its lines at their ends, the name of x."""
        marks, top, reach = head(self.title, self.note)
        across, up = self.axes()
        if self.y:
            marks.append(Label(MARGIN, top + _TEXT / 2, plain(self.y, 48), _TEXT, FAINT))
            top += _TEXT + 6
        names = [plain(series.name, 32) for series in self.named()]
        height = max(self.height, _ROW * len(names))
        left = MARGIN + max(_GUTTER, *(length(name, NUMBERS) for name in up.names())) + 8
        plot = Plot(left=left, top=top + 8, width=self.width, height=height, across=across, up=up)
        marks += plot.grid()
        for series in sorted(self.series, key=lambda each: each.look != "thin"):
            marks += plot.drawn(series, self._colour(series))
        right = plot.left + plot.width
        if any(names):
            marks += self._names(plot, names)
            right += 14 + _SAMPLE + 8 + max(length(name, _TEXT) for name in names)
        bottom = plot.top + height + 24
        if self.x:
            middle = plot.left + plot.width / 2
            marks.append(Label(middle, bottom + _TEXT / 2, plain(self.x, 48), _TEXT, FAINT, anchor="middle"))
            bottom += _TEXT + 4
        return page(self.title, marks, max(right, reach) + MARGIN, bottom + MARGIN / 2)

    def terminal(self) -> RenderableType:
        """The chart in dots of braille, as wide as the console."""
        from regard.sight.pictures.terminal_chart import TerminalChart

        return TerminalChart(self)

    def _values(self) -> tuple[list[float], list[float]]:
        """Every x and every y that is there."""
        places = [place for series in self.series for run in series.runs() for place in run]
        return [x for x, _ in places], [y for _, y in places]

    def _colour(self, series: Series) -> int:
        named = self.named()
        if series.look != "thin":
            return named.index(series)
        after = list(self.series)[list(self.series).index(series) :]
        return next((named.index(each) for each in after if each.look != "thin"), 0)

    def _names(self, plot: Plot, names: list[str]) -> list[Mark]:
        """Names right of the plot, each as near to the end of its line as the others let it be."""
        ends = [series.runs()[-1][-1][1] if series.runs() else plot.up.low for series in self.named()]
        heights = [plot.place(plot.across.low, end)[1] for end in ends]
        rows = spread(heights, _ROW, (plot.top, plot.top + plot.height))
        marks: list[Mark] = []
        x = plot.left + plot.width + 14
        for number, (series, name, y) in enumerate(zip(self.named(), names, rows, strict=True)):
            line = Stroke(((x, y), (x + _SAMPLE, y)), 2.0, HUES[number], dashes=DASHES[number])
            marks.append(line if series.look == "line" else symbol((x + _SAMPLE / 2, y), number))
            marks.append(Label(x + _SAMPLE + 8, y, name, _TEXT, INK))
        return marks


def spread(wanted: Sequence[float], apart: float, between: tuple[float, float]) -> list[float]:
    """Places at least so far apart and, if they all fit, between two bounds, each near where it is wanted."""
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    found = [0.0] * len(wanted)
    fits = len(wanted) * apart <= between[1] - between[0]
    least = between[0] + apart / 2 if fits else between[0]
    for index in order:
        found[index] = max(wanted[index], least)
        least = found[index] + apart
    most = between[1]
    for index in reversed(order):
        found[index] = min(found[index], most)
        most = found[index] - apart
    return found
