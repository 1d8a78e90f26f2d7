"""A matrix with its numbers written in the cells, of either sign."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from rich.console import Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text
from torch import Tensor

from regard.errors import RegardError
from regard.sight.pictures.colours import HUES, MARKED, PAPER, Colour, code, readable
from regard.sight.pictures.drawable import Weights
from regard.sight.pictures.png import length
from regard.sight.pictures.scene import MARGIN, Box, Drawing, Label, Mark, Scene, head, page, plain

MAX_NUMBERS = 64  # numbers along an edge: beyond, they cannot be read
_TEXT, _TALL, _BESIDE = 12.0, 24.0, 14.0
_STRENGTH = 0.75  # how near the darkest cell is to its hue


@dataclass(frozen=True, kw_only=True, eq=False)
class Matrix(Drawing):
    """Numbers in cells: blue above 0, orange below, paler towards 0. Made by `matrix`."""

    values: Float[np.ndarray, "rows columns"]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    title: str
    note: str
    digits: int
    top: float
    marked: Bool[np.ndarray, "rows columns"]

    def scene(self) -> Scene:
        """Cells between the names of rows and columns."""
        marks, y, reach = head(self.title, self.note)
        left = MARGIN + max((length(name, _TEXT) + 8 for name in self.rows if name), default=0.0)
        y += _TALL if any(self.columns) else 6
        texts = [[self._text(value) for value in row] for row in self.values]
        wide = max(length(text, _TEXT) for row in texts for text in (*row, *self.columns)) + _BESIDE
        for column, name in enumerate(self.columns):
            marks.append(Label(left + (column + 0.5) * wide, y - 11, name, _TEXT, anchor="middle"))
        outlines: list[Mark] = []
        for row, name in enumerate(self.rows):
            middle = y + (row + 0.5) * _TALL
            marks.append(Label(left - 8, middle, name, _TEXT, anchor="right"))
            for column, text in enumerate(texts[row]):
                x, back = left + column * wide, self._colour(row, column)
                marks.append(Box(x=x, y=middle - _TALL / 2, width=wide - 1, height=_TALL - 1, fill=back))
                marks.append(Label(x + wide / 2, middle, text, _TEXT, readable(back), anchor="middle"))
                if self.marked[row, column]:
                    edges = Box(
                        x=x, y=middle - _TALL / 2, width=wide - 1, height=_TALL - 1, edge=MARKED, thick=2
                    )
                    outlines.append(edges)
        width = max(left + len(self.columns) * wide, reach) + MARGIN
        return page(self.title, marks + outlines, width, y + len(self.rows) * _TALL + MARGIN / 2)

    def terminal(self) -> RenderableType:
        """A table for a rich console."""
        title = " · ".join(filter(None, (self.title, self.note)))
        table = Table(box=None, padding=0, show_header=any(self.columns))
        if any(self.rows):
            table.add_column("")
        for name in self.columns:
            table.add_column(Text(f" {name} "), justify="right")
        for row, name in enumerate(self.rows):
            cells = []
            for column, value in enumerate(self.values[row]):
                back = self._colour(row, column)
                cells.append(
                    Text(f" {self._text(value)} ", Style(color=code(readable(back)), bgcolor=code(back)))
                )
            table.add_row(*([Text(f"{name} ")] if any(self.rows) else []), *cells)
        return Group(*([Text(title, style="bold")] if title else []), table)

    def _text(self, value: float) -> str:
        rounded = round(value, self.digits) + 0.0  # which makes 0 of −0
        return f"{rounded:.{self.digits}f}".replace("-", "−")

    def _colour(self, row: int, column: int) -> Colour:
        share = float(np.clip(self.values[row, column] / self.top, -1, 1)) if self.top else 0.0
        hue = HUES[0] if share > 0 else HUES[1]
        part = _STRENGTH * abs(share)
        red, green, blue = (
            round(paper + part * (ink - paper)) for paper, ink in zip(PAPER, hue, strict=True)
        )
        return red, green, blue


def matrix(
    values: Weights,
    *,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    title: str = "",
    note: str = "",
    digits: int = 2,
    top: float | None = None,
    marked: Tensor | np.ndarray | None = None,
) -> Matrix:
    """A matrix [rows, columns] with its numbers written in the cells, to so many digits after the point.

    `top` is the amount of the darkest colour, by default the largest one; cells that are True in `marked` are outlined.
    """
    found = (
        values.detach().cpu().double().numpy()
        if isinstance(values, Tensor)
        else np.asarray(values, dtype=np.float64)
    )
    if found.ndim != 2 or not found.size or max(found.shape) > MAX_NUMBERS or not np.isfinite(found).all():
        raise RegardError(
            f"a matrix of shape {found.shape}: give finite numbers [rows, columns], from 1 to {MAX_NUMBERS} of each"
        )
    names = [("",) * size if given is None else tuple(plain(name) for name in given)
             for given, size in ((rows, found.shape[0]), (columns, found.shape[1]))]  # fmt: skip
    if (len(names[0]), len(names[1])) != found.shape:
        raise RegardError(
            f"{len(names[0])} rows and {len(names[1])} columns are named, the matrix is {found.shape}"
        )
    outlined = np.zeros(found.shape, dtype=bool) if marked is None else np.asarray(marked, dtype=bool)
    return Matrix(
        values=found,
        rows=names[0],
        columns=names[1],
        title=plain(title, 96),
        note=plain(note, 160),
        digits=digits,
        top=float(np.abs(found).max()) if top is None else top,
        marked=np.broadcast_to(outlined, found.shape),
    )
