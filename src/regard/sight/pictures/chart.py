"""A chart: numbers that change along an axis, as lines, each named where it ends."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import RenderableType

from regard.errors import RegardError
from regard.sight.pictures.colours import FAINT, HUES, INK
from regard.sight.pictures.font import length
from regard.sight.pictures.labels import plain
from regard.sight.pictures.plot import DASHES, NUMBERS, Plot, Series, symbol
from regard.sight.pictures.scene import MARGIN, Drawing, Label, Mark, Scene, Stroke, head, page
from regard.sight.pictures.ticks import Axis, Kind, axis

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
        kind: Kind = "log" if self.log else "percent" if self.percent else "plain"
        along: Kind = "log" if self.log_x else "plain"
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
