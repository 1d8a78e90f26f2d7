"""Small pictures side by side in a terminal, in as many bands as the console needs."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.segment import Segment
from rich.style import Style

from regard.sight.pictures.colours import shade
from regard.sight.pictures.font import shorten
from regard.sight.pictures.terminal import halves, in_colour, lines_of, shading

_LEAST, _LABEL = 5, 14  # columns of a picture, and at most of the names on the left
_DIM = Style(dim=True)


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
            rows = halves(self._small(columns) if self.pixels is not None else shade(levels))
        else:
            pairs = np.maximum.reduceat(levels, np.arange(0, len(levels), 2), axis=0)
            rows = [[Segment("".join(shading(float(level)) for level in row))] for row in pairs]
        spare = columns - levels.shape[1]
        caption = shorten(self.caption, columns)
        if caption:
            width = levels.shape[1]
            ahead = max(0, (width - cell_len(caption)) // 2)
            after = columns - ahead - cell_len(caption)
            return [
                *(_filled(row, spare) for row in rows),
                [Segment(" " * ahead + caption + " " * after, _DIM)],
            ]
        return [_filled(row, spare) for row in rows]

    def _small(self, columns: int) -> NDArray[np.uint8]:
        if self.pixels is None or self.pixels.shape[1] <= columns:
            return self.pixels if self.pixels is not None else shade(self.levels)
        size = (columns, pooled(self.levels, columns).shape[0])
        return np.asarray(Image.fromarray(self.pixels).resize(size, Image.Resampling.BOX))


@dataclass(frozen=True, kw_only=True, eq=False)
class Tiles:
    """Named rows of pictures, with names above the columns; what does not fit beside goes below."""

    rows: tuple[tuple[str, tuple[TerminalTile, ...]], ...]
    columns: tuple[str, ...] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        label = min(_LABEL, max(cell_len(name) for name, _ in self.rows))
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
    for axis in (0, 1) if size > 1 else ():
        levels = np.maximum.reduceat(levels, np.arange(0, levels.shape[axis], size), axis=axis)
    return levels


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


def _filled(row: list[Segment], spare: int) -> list[Segment]:
    return [*row, Segment(" " * spare)] if spare > 0 else row
