"""A plot: series as lines and dots between two axes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from regard.sight.pictures.colours import FAINT, HATCH, HIDDEN, HUES, PAPER, Colour
from regard.sight.pictures.labels import plain
from regard.sight.pictures.scene import Box, Circle, Label, Mark, Stroke
from regard.sight.pictures.ticks import Axis

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
