"""Heat maps and small pictures in a terminal: background colours, or shading characters where there is no colour."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from rich.cells import cell_len
from rich.color import Color
from rich.console import Console, ConsoleOptions
from rich.measure import Measurement
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from regard.sight.pictures.colours import HATCH, HIDDEN, Colour, readable, shade
from regard.sight.pictures.heatmap import Heatmap
from regard.sight.pictures.scene import amount, letters, shorten

SHADES = " ░▒▓█"
MASKED = "·"
_LABEL = 12  # columns for the tokens on the left, and lines for those above
_SMALL = 24  # cells along an edge of a compact map
_LEAST, _TILE_LABEL = 5, 14  # columns of a small picture, and at most of the names on its left
_DIM = Style(dim=True)


@dataclass(frozen=True)
class TerminalMap:
    """A heat map that fits the console it is printed on. Where keys are too many, neighbours are shown as one."""

    picture: Heatmap
    compact: bool = False
    marks: Mapping[tuple[int, int], str] = field(default_factory=dict)  # on cells, where there is room

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        label = 0 if self.compact else self._label() + 1
        cells = min(self.picture.weights.shape[1], _SMALL if self.compact else options.max_width)
        scale = 0 if self.compact else label + _scale_width(self.picture)
        width = min(max(label + cells * self._columns(options), scale), options.max_width)
        return Measurement(width, width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment | Text]:
        coloured = in_colour(console)
        if self.compact:
            most = max(1, min(_SMALL, options.max_width))
            levels, seen, _ = _pooled(self.picture, most, most)
            if coloured:
                pixels = np.where(seen[..., None], shade(levels), np.array(HATCH, dtype=np.uint8))
                yield from lines_of(halves(pixels))
            else:
                yield from _rows(levels, seen, 1, coloured=False)
            return
        label, columns = self._label(), self._columns(options)
        most = max(1, (options.max_width - label - 1) // columns)
        levels, seen, pool = _pooled(self.picture, self.picture.weights.shape[0], most)
        lead = " " * (label + 1)
        if pool == 1:
            yield from _above(self.picture.keys, columns, lead)
        else:
            note = f"{lead}one column = {pool} keys, the largest weight of them"
            yield Text(note, style="dim", no_wrap=True, overflow="ellipsis")
        shown = [shorten(query, label) for query in self.picture.queries]
        names = [f"{' ' * (label - cell_len(name))}{name} " for name in shown]
        marks = self.marks if pool == 1 else {}
        yield from _rows(levels, seen, columns, coloured=coloured, names=names, marks=marks)
        yield from _scale(self.picture, lead, coloured=coloured, masked=not self.picture.allowed.all())

    def _label(self) -> int:
        return min(_LABEL, max(cell_len(name) for name in self.picture.queries))

    def _columns(self, options: ConsoleOptions) -> int:
        """How wide a cell is: two columns make a square, one is taken where two do not fit."""
        if self.compact:
            return 1
        return 2 if self._label() + 1 + 2 * len(self.picture.keys) <= options.max_width else 1


def _pooled(picture: Heatmap, rows: int, columns: int) -> tuple[NDArray[np.float64], NDArray[np.bool_], int]:
    """At most so many rows and columns: levels (the largest of those put together), whether any is seen, how many."""
    levels, seen = picture.levels() * picture.allowed, picture.allowed
    down, across = -(-levels.shape[0] // rows), -(-levels.shape[1] // columns)
    return _reduced(np.maximum, levels, down, across), _reduced(np.logical_or, seen, down, across), across


def _reduced(how: np.ufunc, values: NDArray[Any], down: int, across: int) -> NDArray[Any]:
    """Blocks of so many rows and columns, each reduced to one value."""
    for axis, size in ((0, down), (1, across)):
        values = how.reduceat(values, np.arange(0, values.shape[axis], size), axis=axis)
    return values


def _style(front: Colour | None, back: Colour | None) -> Style:
    return Style(
        color=Color.from_rgb(*front) if front else None, bgcolor=Color.from_rgb(*back) if back else None
    )


def halves(colours: NDArray[np.uint8]) -> list[list[Segment]]:
    """Pixels [height, width, 3] two to a character, in its upper and its lower half; a list for each line."""
    lines = []
    for upper in range(0, len(colours), 2):
        lower = colours[upper + 1].tolist() if upper + 1 < len(colours) else [None] * colours.shape[1]
        pairs = zip(colours[upper].tolist(), lower, strict=True)
        lines.append([Segment("▀", _style(tuple(front), back and tuple(back))) for front, back in pairs])
    return lines


def lines_of(rows: list[list[Segment]]) -> Iterator[Segment]:
    """Rows of segments, each ended."""
    for row in rows:
        yield from row
        yield Segment.line()


def in_colour(console: Console) -> bool:
    """Whether the console shows enough colours for a ramp, and wants any."""
    return not console.no_color and console.color_system in ("truecolor", "256")


def _rows(
    levels: NDArray[np.float64],
    seen: NDArray[np.bool_],
    columns: int,
    *,
    coloured: bool,
    names: list[str] | None = None,
    marks: Mapping[tuple[int, int], str] | None = None,
) -> Iterator[Segment]:
    """One query a line."""
    colours, marks = shade(levels), marks or {}
    for row, cells in enumerate(levels):
        if names is not None:
            yield Segment(names[row])
        for column, level in enumerate(cells):
            hidden, mark = not seen[row, column], marks.get((row, column))
            back: Colour = HIDDEN if hidden else tuple(colours[row, column].tolist())
            if mark:
                text = mark[:columns].ljust(columns)
                yield Segment(text, _style(readable(back), back) if coloured else None)
            elif coloured:
                yield Segment(("╱" if hidden else " ") * columns, _style(HATCH if hidden else None, back))
            else:
                yield Segment((MASKED if hidden else shading(float(level))) * columns)
        yield Segment.line()


def shading(level: float) -> str:
    """The character that is about as dark as the level."""
    return SHADES[min(len(SHADES) - 1, round(level * (len(SHADES) - 1)))]


def _above(keys: tuple[str, ...], columns: int, lead: str) -> Iterator[Segment]:
    """The keys written downwards, their ends resting on the map."""
    shown = [letters(shorten(key, _LABEL)) for key in keys]
    height = max(map(len, shown), default=0)
    for line in range(height):
        row = [name[line - height + len(name)] if line >= height - len(name) else " " for name in shown]
        # A wide letter fills a cell of two columns; where cells have one, there is no room for it.
        row = [each if cell_len(each) <= columns else "▯" for each in row]
        text = "".join(each + " " * (columns - cell_len(each)) for each in row)
        yield Segment((lead + text).rstrip())
        yield Segment.line()


def _scale(picture: Heatmap, lead: str, *, coloured: bool, masked: bool) -> Iterator[Segment]:
    """What the palest and the darkest cell mean."""
    yield Segment(f"{lead}0 ")
    for level in np.linspace(0.0, 1.0, 10 if coloured else len(SHADES)):
        back: Colour = tuple(shade(level).tolist())
        yield Segment(" ", _style(None, back)) if coloured else Segment(shading(float(level)))
    yield Segment(f" {amount(picture.top)}")
    if masked:
        yield Segment("   ")
        yield Segment("╱╱", _style(HATCH, HIDDEN)) if coloured else Segment(MASKED)
        yield Segment(" may not look")
    yield Segment.line()


def _scale_width(picture: Heatmap) -> int:
    """The columns of the scale in colour, where it is wider than in characters."""
    shades = _scale(picture, "", coloured=True, masked=not picture.allowed.all())
    return sum(segment.cell_length for segment in shades if segment.text != "\n")


@dataclass(frozen=True, kw_only=True, eq=False)
class TerminalTile:
    """Levels [height, width] between 0 and 1, and what is shown for them: pixels, or their own colours."""

    levels: NDArray[np.float64]
    pixels: NDArray[np.uint8] | None = None
    caption: str = ""

    def lines(self, columns: int, *, coloured: bool) -> list[list[Segment]]:
        """The picture in at most so many columns, and each line of it filled up to them."""
        levels = pooled(self.levels, columns)
        if coloured:
            pixels = shade(levels) if self.pixels is None else self.pixels
            if pixels.shape[1] > columns:
                size = (columns, len(levels))
                pixels = np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.BOX))
            rows = halves(pixels)
        else:
            pairs = _reduced(np.maximum, levels, 2, 1)
            rows = [[Segment("".join(shading(float(level)) for level in row))] for row in pairs]
        spare = columns - levels.shape[1]
        if spare > 0:
            rows = [[*row, Segment(" " * spare)] for row in rows]
        caption = shorten(self.caption, columns)
        if caption:
            ahead = max(0, (levels.shape[1] - cell_len(caption)) // 2)
            after = columns - ahead - cell_len(caption)
            rows.append([Segment(" " * ahead + caption + " " * after, _DIM)])
        return rows


@dataclass(frozen=True, kw_only=True, eq=False)
class Tiles:
    """Named rows of pictures, with names above the columns; what does not fit beside goes below."""

    rows: tuple[tuple[str, tuple[TerminalTile, ...]], ...]
    columns: tuple[str, ...] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        label = min(_TILE_LABEL, max(cell_len(name) for name, _ in self.rows))
        lead, most = label + 1 if label else 0, max(len(tiles) for _, tiles in self.rows)
        room = max(1, options.max_width - lead)
        own = max(tile.levels.shape[1] for _, tiles in self.rows for tile in tiles)
        wide = max(1, min(own, room, max(min(own, _LEAST), (room + 1) // most - 1)))
        named = max(map(cell_len, self._captions()), default=0)
        taken = max(pooled(tile.levels, wide).shape[1] for _, tiles in self.rows for tile in tiles)
        wide = min(wide, max(taken, named))
        across = max(1, (room + 1) // (wide + 1))
        for first in range(0, most, across):
            if self.columns:
                names = (shorten(name, wide) for name in self.columns[first : first + across])
                text = " ".join(name + " " * (wide - cell_len(name)) for name in names)
                yield from (Segment(" " * lead), Segment(text, _DIM), Segment.line())
            for name, tiles in self.rows:
                shown = [
                    tile.lines(wide, coloured=in_colour(console)) for tile in tiles[first : first + across]
                ]
                yield from lines_of(_beside(shown, shorten(name, label), lead, wide))

    def _captions(self) -> list[str]:
        return [*self.columns, *(tile.caption for _, tiles in self.rows for tile in tiles)]


def pooled(levels: NDArray[np.float64], columns: int) -> NDArray[np.float64]:
    """At most so many columns, and rows to match; a level is the largest of those put together."""
    size = -(-levels.shape[1] // columns)
    return _reduced(np.maximum, levels, size, size)


def _beside(shown: list[list[list[Segment]]], name: str, lead: int, wide: int) -> list[list[Segment]]:
    """Pictures line by line beside one another, after the name of their row."""
    lines = []
    for index in range(max((len(each) for each in shown), default=0)):
        start = (name if index == 0 else "").rjust(max(0, lead - 1)) + (" " if lead else "")
        line = [Segment(start, _DIM)]
        for each in shown:
            line += each[index] if index < len(each) else [Segment(" " * wide)]
            line.append(Segment(" "))
        lines.append(line[:-1])
    return lines
