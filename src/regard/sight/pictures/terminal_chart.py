"""Charts in a terminal: lines in dots of braille, eight to a character."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.color import Color
from rich.console import Console, ConsoleOptions
from rich.measure import Measurement
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from regard.sight.pictures.chart import Axis, Chart, Series, axis, spread
from regard.sight.pictures.colours import HUES
from regard.sight.pictures.scene import plain, shorten
from regard.sight.pictures.terminal import in_colour

_DIM = Style(dim=True)
_MOST = 100  # columns
_NAME = 18
# The bit of each dot, [4 lines, 2 columns], in the block that begins at U+2800.
_BITS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])


@dataclass(frozen=True)
class TerminalChart:
    """A chart that fits the console it is printed on."""

    chart: Chart
    lines: int = 9

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(24, options.max_width), min(_MOST, options.max_width))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment | Text]:
        chart, coloured = self.chart, in_colour(console)
        named = chart.named()
        lines = max(self.lines, len(named))
        across, up = self._axes()
        ticks = {
            round((1 - up.at(tick)) * (lines - 1)): name
            for tick, name in zip(up.ticks, up.names(), strict=True)
        }
        left = max(map(cell_len, ticks.values()))
        names = [shorten(plain(series.name, _NAME), _NAME) for series in named]
        right = max(map(cell_len, names)) + 1 if any(names) else 0
        columns = max(2, min(options.max_width, _MOST) - left - 2 - right)
        dots, owner = self._dots(across, up, lines, columns)
        beside = self._beside(up, lines)
        for heading in filter(None, (plain(chart.title, 96), plain(chart.y, 48))):
            yield Text(heading, style="bold" if heading == plain(chart.title, 96) else "dim", no_wrap=True)
        for line in range(lines):
            name = ticks.get(line, "")
            yield Segment(" " * (left - cell_len(name)) + name + (" ┤" if name else " │"), _DIM)
            for column in range(columns):
                style = _ink(int(owner[line, column])) if coloured and dots[line, column] else None
                yield Segment(chr(0x2800 + dots[line, column]) if dots[line, column] else " ", style)
            if line in beside:
                number = beside[line]
                yield Segment(" " + names[number], _ink(number) if coloured else None)
            yield Segment.line()
        yield from _below(across, " " * (left + 2), columns, plain(chart.x, 48))

    def _axes(self) -> tuple[Axis, Axis]:
        """Those of the chart, with the few ticks that there is room for."""
        across, up = self.chart.axes()
        ys = [y for series in self.chart.series for run in series.runs() for _, y in run]
        few = axis(ys, kind=up.kind, count=3)
        return across, few

    def _dots(
        self, across: Axis, up: Axis, lines: int, columns: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The bits of every character, and the series that it shows last."""
        bits = np.zeros((lines, columns), dtype=np.int64)
        owner = np.zeros((lines, columns), dtype=np.int64)
        for number, series in enumerate(self.chart.named()):
            for x, y in _places(series, across, up, lines, columns):
                bits[y // 4, x // 2] |= int(_BITS[y % 4, x % 2])
                owner[y // 4, x // 2] = number
        return bits, owner

    def _beside(self, up: Axis, lines: int) -> dict[int, int]:
        """Which series is named on which line."""
        named = self.chart.named()
        ends = [
            (1 - up.at(series.runs()[-1][-1][1])) * (lines - 1) if series.runs() else 0.0 for series in named
        ]
        rows = spread([float(round(end)) for end in ends], 1.0, (-0.5, lines - 0.5))
        order = sorted(range(len(named)), key=lambda index: rows[index])
        taken: dict[int, int] = {}
        for place, index in enumerate(order):
            row = min(max(round(rows[index]), place), lines - len(named) + place)
            while row in taken:
                row += 1
            taken[row] = index
        return taken


def _places(series: Series, across: Axis, up: Axis, lines: int, columns: int) -> Iterator[tuple[int, int]]:
    """The dots of a series, those between two of its points too."""
    wide, high = 2 * columns - 1, 4 * lines - 1
    # Ticks are in the middle of a line of characters, and so are the values they name.
    margin = 1.5 / high
    for run in series.runs():
        spots = [(across.at(x) * wide, (margin + (1 - up.at(y)) * (1 - 2 * margin)) * high) for x, y in run]
        for (x0, y0), (x1, y1) in zip(spots, [*spots[1:], spots[-1]], strict=True):
            steps = max(1, round(max(abs(x1 - x0), abs(y1 - y0)))) if series.look == "line" else 1
            for step in range(steps + 1 if series.look == "line" else 1):
                yield round(x0 + (x1 - x0) * step / steps), round(y0 + (y1 - y0) * step / steps)


def _below(across: Axis, lead: str, columns: int, name: str) -> Iterator[Segment]:
    """The axis of x: its name at the end, and as many of its numbers as do not touch."""
    text = [" "] * columns
    end = -2
    for tick, said in zip(across.ticks, across.names(), strict=True):
        start = min(max(0, round(across.at(tick) * (columns - 1)) - len(said) // 2), columns - len(said))
        if start > end + 1 and start >= 0:
            text[start : start + len(said)] = said
            end = start + len(said)
    name = f" {name}" if name and cell_len(name) < columns else ""
    yield Segment(lead[:-1] + "└" + "─" * (columns - cell_len(name)) + name, _DIM)
    yield Segment.line()
    yield Segment((lead + "".join(text)).rstrip(), _DIM)
    yield Segment.line()


def _ink(number: int) -> Style:
    return Style(color=Color.from_rgb(*HUES[number]))
