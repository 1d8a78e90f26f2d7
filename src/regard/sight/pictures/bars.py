"""Bars: how large some amounts are beside one another, in groups that are each compared by themselves."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from regard.errors import RegardError
from regard.sight.pictures.colours import FAINT, HUES, INK
from regard.sight.pictures.png import length
from regard.sight.pictures.scene import MARGIN, Box, Drawing, Label, Mark, Scene, Stroke, head, page, plain

_TEXT, _ROW, _BAR = 13.0, 21.0, 13.0
_GAP = 14.0  # between groups
_CELLS = 24  # of the longest bar in a terminal
_BEYOND = 1.2  # of the longest bar: where ends farther out are cut off


@dataclass(frozen=True, kw_only=True)
class Bar:
    """An amount, the ends between which it was found, and what is written beside it."""

    name: str
    amount: float
    ends: tuple[float, float] | None = None
    said: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Bars(Drawing):
    """Groups of bars under headings. All bars are drawn to one scale; a name has the same colour in every group."""

    groups: Sequence[tuple[str, Sequence[Bar]]]
    title: str = ""
    note: str = ""
    width: float = 420.0  # of the longest

    def __post_init__(self) -> None:
        amounts = [bar.amount for _, bars in self.groups for bar in bars]
        if not amounts or not all(math.isfinite(amount) and amount >= 0 for amount in amounts):
            raise RegardError(f"bars of {amounts[:8]}: give at least one amount, all finite and from 0 on")

    def scene(self) -> Scene:
        """Title, then the groups from top to bottom."""
        marks, y, reach = head(self.title, self.note)
        left = MARGIN + max(length(plain(name, 32), _TEXT) for name in self._names()) + 12
        right = left
        scale = self.width / self._largest()
        for heading, bars in self.groups:
            y += _GAP
            if heading:
                marks.append(Label(MARGIN, y + _TEXT / 2, plain(heading, 64), _TEXT, FAINT))
                y += _TEXT + 8
            for bar in bars:
                end = left + scale * max(bar.amount, *self._ends(bar)) + 8
                marks += self._drawn(bar, left, y + _ROW / 2, scale, end)
                right = max(right, end + length(plain(bar.said, 48), _TEXT))
                y += _ROW
        return page(self.title, marks, max(right, reach) + MARGIN, y + MARGIN)

    def terminal(self) -> RenderableType:
        """The bars in characters."""
        table = Table.grid(padding=(0, 1))
        for heading, bars in self.groups:
            if heading:
                table.add_row(Text(plain(heading, 64), style="dim"))
            for bar in bars:
                cells = round(_CELLS * bar.amount / self._largest())
                table.add_row(Text(plain(bar.name, 32)), Text("█" * cells), Text(plain(bar.said, 48)))
        return table

    def _largest(self) -> float:
        return max(bar.amount for _, bars in self.groups for bar in bars) or 1.0

    def _ends(self, bar: Bar) -> tuple[float, float]:
        most = _BEYOND * self._largest()
        low, high = bar.ends or (bar.amount, bar.amount)
        return min(low, most), min(high, most)

    def _names(self) -> list[str]:
        return list(dict.fromkeys(bar.name for _, bars in self.groups for bar in bars))

    def _drawn(self, bar: Bar, left: float, y: float, scale: float, end: float) -> list[Mark]:
        hue = HUES[self._names().index(bar.name) % len(HUES)]
        width = max(1.0, scale * bar.amount)
        name = plain(bar.name, 32)
        marks: list[Mark] = [
            Label(left - 10, y, name, _TEXT, INK, anchor="right"),
            Box(x=left, y=y - _BAR / 2, width=width, height=_BAR, fill=hue, opacity=0.8, corner=1.5),
            Label(end, y, plain(bar.said, 48), _TEXT, FAINT),
        ]
        if bar.ends is not None:
            low, high = (left + scale * each for each in self._ends(bar))
            for places in (((low, y), (high, y)), *(((x, y - 3), (x, y + 3)) for x in (low, high))):
                marks.append(Stroke(places, 1.2, INK))
        return marks
