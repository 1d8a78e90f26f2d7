"""A table of texts: formulas beside what was measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from regard.errors import RegardError
from regard.sight.pictures.colours import FAINT, HATCH, HIDDEN, INK
from regard.sight.pictures.png import length
from regard.sight.pictures.scene import MARGIN, Drawing, Label, Scene, Stroke, head, page, plain

_TEXT, _ROW, _APART = 12.5, 23.0, 22.0
_LONGEST = 48  # letters of a cell


@dataclass(frozen=True, kw_only=True, eq=False)
class TextTable(Drawing):
    """Headings and rows of text. The first `names` columns are words, on the left; the others numbers, on the right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    note: str = ""
    names: int = 1

    def __post_init__(self) -> None:
        wrong = next((row for row in self.rows if len(row) != len(self.columns)), None)
        if not self.columns or wrong is not None:
            raise RegardError(
                f"a table of {len(self.columns)} columns with a row {wrong}: give each row a text for every column"
            )

    def scene(self) -> Scene:
        """Headings over a line, then the rows, a pale line below each."""
        marks, y, reach = head(self.title, self.note)
        cells = [[plain(text, _LONGEST) for text in row] for row in (self.columns, *self.rows)]
        widths = [max(length(text, _TEXT) for text in column) for column in zip(*cells, strict=True)]
        end = MARGIN + sum(widths) + _APART * (len(widths) - 1)
        for number, row in enumerate(cells):
            left, middle = MARGIN, y + _ROW / 2
            for column, (text, wide) in enumerate(zip(row, widths, strict=True)):
                ink = INK if number else FAINT
                if column < self.names:
                    marks.append(Label(left, middle, text, _TEXT, ink))
                else:
                    marks.append(Label(left + wide, middle, text, _TEXT, ink, anchor="right"))
                left += wide + _APART
            y += _ROW
            marks.append(Stroke(((MARGIN, y), (end, y)), 1.0, HIDDEN if number else HATCH))
        return page(self.title, marks, max(end, reach) + MARGIN, y + MARGIN)

    def terminal(self) -> RenderableType:
        """A table for a rich console."""
        table = Table(
            box=SIMPLE_HEAD,
            padding=(0, 0, 0, 1),
            pad_edge=False,
            title=Text(" · ".join(filter(None, (self.title, self.note)))),
            title_justify="left",
            title_style="bold",
        )
        for number, name in enumerate(self.columns):
            side: Literal["left", "right"] = "left" if number < self.names else "right"
            table.add_column(Text(name), justify=side, no_wrap=side == "right")
        for row in self.rows:
            table.add_row(*map(Text, row))
        return table
