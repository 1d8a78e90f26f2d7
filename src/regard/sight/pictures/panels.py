"""Several pictures on one page: under one another, or heat maps in rows and columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, zip_longest

from rich.console import Group, RenderableType
from rich.text import Text

from regard.errors import RegardError
from regard.sight.pictures.heatmap import Heatmap
from regard.sight.pictures.labels import plain
from regard.sight.pictures.scene import MARGIN, Drawing, Mark, Scene, head, moved, page

_CELL, _MAP = 18, 240  # of a sheet: the largest cell, and the largest map


@dataclass(frozen=True, kw_only=True, eq=False)
class Panels(Drawing):
    """Pictures from top to bottom, their left edges in line."""

    parts: Sequence[Drawing]
    title: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        if not self.parts:
            raise RegardError("a page without pictures: give at least one")

    def scene(self) -> Scene:
        """The pictures under a common title."""
        marks, y, reach = head(self.title, self.note)
        start = y - 10 if self.title or self.note else 0.0  # each picture brings a margin
        found, width, height = _placed([[part.scene()] for part in self.parts], start)
        return page(self.title, marks + found, max(width, reach + MARGIN), height)

    def terminal(self) -> RenderableType:
        """The pictures for a rich console, one after another."""
        heading = [Text(plain(self.title, 96), style="bold")] if self.title else []
        note = [Text(plain(self.note, 160), style="dim")] if self.note else []
        return Group(*heading, *note, *(part.terminal() for part in self.parts))


@dataclass(frozen=True, eq=False)
class Sheet(Drawing):
    """Rows of heat maps, to be compared; made by `sheet`."""

    rows: tuple[tuple[Heatmap, ...], ...]

    def scene(self) -> Scene:
        """Cells of one size, the maps of a column under one another."""
        most = max(max(picture.weights.shape) for row in self.rows for picture in row)
        cell = max(1, min(_CELL, _MAP // most))
        scenes = [[each.scene(each.layout(cell=cell, angle=90.0)) for each in row] for row in self.rows]
        return page("", *_placed(scenes))

    def terminal(self) -> RenderableType:
        """The maps for a rich console, one after another under their titles."""
        maps = [picture for row in self.rows for picture in row]
        return Group(*(part for each in maps for part in (Text(each.title, style="bold"), each.terminal())))


def sheet(pictures: Sequence[Sequence[Heatmap]]) -> Sheet:
    """Rows of heat maps as one page, each with its own title and scale; a row may be shorter than the others."""
    rows = tuple(tuple(row) for row in pictures)
    if not rows or not all(rows):
        raise RegardError(
            f"a sheet with {[len(row) for row in rows]} pictures a row: give each row at least one"
        )
    return Sheet(rows)


def _placed(rows: Sequence[Sequence[Scene]], top: float = 0.0) -> tuple[list[Mark], float, float]:
    """Scenes in rows and columns, from a height on: their marks, how far right and how far down they reach."""
    widths = [max(each.width for each in column if each) for column in zip_longest(*rows)]
    lefts = [0, *accumulate(widths)]
    marks: list[Mark] = []
    for row in rows:
        for left, scene in zip(lefts, row, strict=False):
            marks += [moved(mark, left, top) for mark in scene.marks]
        top += max(scene.height for scene in row)
    return marks, lefts[-1], top
