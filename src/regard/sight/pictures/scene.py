"""A scene: marks at their places, in the units they are seen at. PNG and SVG are drawn from it, so they agree.

Pictures that are drawn as scenes can be put under one another on one page. Text is made fit to be shown: tokens are
data, and may be endless, hold control characters, or nothing at all.
"""

import math
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import accumulate, zip_longest
from os import PathLike
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.text import Text

from regard.data.file_access import write_atomically
from regard.errors import RegardError
from regard.sight.pictures.colours import FAINT, HATCH, HIDDEN, INK, PAPER, Colour

MARGIN = 20.0
TITLE, NOTE = 18.0, 12.5  # sizes of text
_DASHES = (4.0, 3.0)  # of an outline: drawn and left out, about
_GAPPED = 6  # units: cells at least this large have a line of paper between them
UNSHOWN = "�"
_JOINERS = ("\u200c", "\u200d", "\ufe0e", "\ufe0f")  # join or restyle their neighbours, which are shown
_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_MARKS = 2  # accents kept on one letter; Vietnamese needs two


@dataclass(frozen=True)
class Label:
    """Text whose middle line starts, is centred or ends at a place."""

    x: float
    y: float
    text: str
    size: float
    ink: Colour = INK
    anchor: Literal["left", "middle", "right"] = "left"
    angle: float = 0.0  # degrees against the clock, around the place; for text that starts there


@dataclass(frozen=True, kw_only=True)
class Box:
    """A rectangle, filled or outlined; `said` is shown when it is pointed at."""

    x: float
    y: float
    width: float
    height: float
    fill: Colour | None = None
    edge: Colour | None = None
    thick: float = 1.0
    dashed: bool = False
    opacity: float = 1.0
    corner: float = 0.0
    said: str = ""

    @property
    def dashes(self) -> tuple[float, ...]:
        """How long the dashes of its outline and the gaps between them are, a whole number of both on a side."""
        step = self.width / max(1, round(self.width / sum(_DASHES)))
        return tuple(step * part / sum(_DASHES) for part in _DASHES) if self.dashed else ()


@dataclass(frozen=True, kw_only=True)
class Ribbon:
    """A line from left to right that leaves and arrives level."""

    start: tuple[float, float]
    end: tuple[float, float]
    thick: float
    ink: Colour
    opacity: float = 1.0
    said: str = ""


@dataclass(frozen=True)
class Stroke:
    """A line through places, in one go or in dashes: (drawn, left out, drawn …) long."""

    places: tuple[tuple[float, float], ...]
    thick: float
    ink: Colour
    dashes: tuple[float, ...] = ()
    said: str = ""


@dataclass(frozen=True, kw_only=True)
class Circle:
    """A filled circle in a ring."""

    x: float
    y: float
    radius: float
    fill: Colour
    edge: Colour
    thick: float = 1.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Pixels:
    """An image [height, width, 3] stretched over a rectangle; `blocky` keeps its pixels apart."""

    x: float
    y: float
    width: float
    height: float
    pixels: NDArray[np.uint8]
    blocky: bool = True
    said: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class CellGrid:
    """Square cells [rows, columns] of flat colour, hatched where `hidden`; `said` is shown for one pointed at."""

    x: float
    y: float
    side: int
    colours: NDArray[np.uint8]
    hidden: NDArray[np.bool_]
    said: Callable[[int, int], str]

    @property
    def gap(self) -> int:
        """How wide the line of paper between cells is."""
        return 1 if self.side >= _GAPPED else 0

    def pixels(self, scale: int) -> NDArray[np.uint8]:
        """All cells as an image, with so many pixels to a unit."""
        side = self.side * scale
        pixels = self.colours.repeat(side, 0).repeat(side, 1)
        hidden = self.hidden.repeat(side, 0).repeat(side, 1)
        rows, columns = np.ogrid[: pixels.shape[0], : pixels.shape[1]]
        pixels[hidden] = HIDDEN
        pixels[hidden & ((rows + columns) % (6 * scale) < scale)] = HATCH
        if self.gap:
            pixels[(rows % side >= side - scale) | (columns % side >= side - scale)] = PAPER
        return pixels


Mark = Label | Box | Ribbon | Stroke | Circle | Pixels | CellGrid
AnyMark = TypeVar("AnyMark", bound=Mark)


@dataclass(frozen=True, kw_only=True, eq=False)
class Scene:
    """Marks on a page, the first at the back; text is over all others."""

    width: int
    height: int
    title: str
    marks: Sequence[Mark]

    def ordered(self) -> list[Mark]:
        """The marks as they are drawn, text last."""
        return sorted(self.marks, key=lambda mark: isinstance(mark, Label))


class Drawing(ABC):
    """What is drawn as a scene: written as PNG and SVG, shown in a notebook, and in its own way in a terminal."""

    @abstractmethod
    def scene(self) -> Scene:
        """The marks of the picture."""

    @abstractmethod
    def terminal(self) -> RenderableType:
        """The picture for a rich console."""

    def png(self, path: str | PathLike[str]) -> None:
        """Write the picture as PNG, at twice the size it is meant to be seen at."""
        from regard.sight.pictures.png import image

        held = BytesIO()
        image(self.scene()).save(held, format="PNG", optimize=True)
        write_atomically(path, held.getvalue())

    def svg(self, path: str | PathLike[str]) -> None:
        """Write the picture as SVG, where marks name their weight when pointed at."""
        from regard.sight.pictures.svg import document

        write_atomically(path, document(self.scene()))

    def write(self, path: str | PathLike[str]) -> None:
        """Write the picture as PNG or SVG, by the suffix of the file."""
        suffix = Path(path).suffix.lower()
        if suffix not in (".png", ".svg"):
            raise RegardError(
                f"{path}: a picture is written as .png or .svg, not as {suffix or 'a file without either'}"
            )
        (self.png if suffix == ".png" else self.svg)(path)

    def _repr_html_(self) -> str:
        from regard.sight.pictures.svg import document

        # Scrolled where it is wider than the page.
        return f'<div style="overflow-x:auto;max-width:100%">{document(self.scene())}</div>'


def page(title: str, marks: Sequence[Mark], width: float, height: float) -> Scene:
    """A scene whose size is rounded up to whole units."""
    return Scene(width=math.ceil(width), height=math.ceil(height), title=plain(title, 96), marks=marks)


def moved(mark: AnyMark, x: float, y: float) -> AnyMark:
    """The same mark, so far to the right and so far down."""
    if isinstance(mark, Ribbon):
        ends = [(at[0] + x, at[1] + y) for at in (mark.start, mark.end)]
        return replace(mark, start=ends[0], end=ends[1])
    if isinstance(mark, Stroke):
        return replace(mark, places=tuple((at[0] + x, at[1] + y) for at in mark.places))
    return replace(mark, x=mark.x + x, y=mark.y + y)


def head(title: str, note: str) -> tuple[list[Mark], float, float]:
    """Title and note at the top of a page: their marks, the height where they end, and how far right they reach."""
    from regard.sight.pictures.png import length  # which draws what is defined here

    marks: list[Mark] = []
    y, reach = MARGIN, 0.0
    lines = ((plain(title, 96), TITLE, 1.55, INK), (plain(note, 160), NOTE, 1.9, FAINT))
    for text, size, below, ink in lines:
        if text:
            marks.append(Label(MARGIN, y + size / 2, text, size, ink))
            y, reach = y + size * below, max(reach, MARGIN + length(text, size))
    return marks, y, reach


def placed(rows: Sequence[Sequence[Scene]], top: float = 0.0) -> tuple[list[Mark], float, float]:
    """Scenes in rows and columns, from a height on: their marks, how far right and how far down they reach."""
    widths = [max(each.width for each in column if each) for column in zip_longest(*rows)]
    lefts = [0, *accumulate(widths)]
    marks: list[Mark] = []
    for row in rows:
        for left, scene in zip(lefts, row, strict=False):
            marks += [moved(mark, left, top) for mark in scene.marks]
        top += max(scene.height for scene in row)
    return marks, lefts[-1], top


@dataclass(frozen=True, kw_only=True, eq=False)
class PictureGrid(Drawing):
    """Pictures in rows and columns, under a common title; a row may be shorter than the others."""

    rows: Sequence[Sequence[Drawing]]
    title: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        if not self.rows or not all(self.rows):
            raise RegardError("a page, or a row of one, without pictures: give at least one")

    def scene(self) -> Scene:
        """The pictures of a column start at one left edge."""
        marks, y, reach = head(self.title, self.note)
        start = y - 10 if self.title or self.note else 0.0  # each picture brings a margin
        found, width, height = placed([[part.scene() for part in row] for row in self.rows], start)
        return page(self.title, marks + found, max(width, reach + MARGIN), height)

    def terminal(self) -> RenderableType:
        """The pictures for a rich console: those of a row beside one another where they fit, else one after another."""
        from regard.sight.pictures.terminal_grid import TerminalGrid

        heading = [Text(plain(self.title, 96), style="bold")] if self.title else []
        note = [Text(plain(self.note, 160), style="dim")] if self.note else []
        return Group(*heading, *note, TerminalGrid([[part.terminal() for part in row] for row in self.rows]))


class Panels(PictureGrid):
    """Pictures from top to bottom, their left edges in line."""

    def __init__(self, *, parts: Sequence[Drawing], title: str = "", note: str = "") -> None:
        super().__init__(rows=[[part] for part in parts], title=title, note=note)

    @property
    def parts(self) -> list[Drawing]:
        """The pictures, from the top."""
        return [part for (part,) in self.rows]


def plain(text: str, limit: int = 16) -> str:
    """The text as one visible line of at most `limit` columns: ␊ for a line break, ␣ for a space at an end, … if cut."""
    text = unicodedata.normalize("NFC", str(text)[: 8 * limit + 64])
    shown, marks = [], 0
    for letter in text:
        category = unicodedata.category(letter)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        if letter not in _JOINERS and marks <= _MARKS:
            shown.append(_visible(letter, category))
    return shorten(_marked_ends("".join(shown)), limit)


def shorten(text: str, limit: int) -> str:
    """The text, or as much of its beginning as leaves room for a … in `limit` columns."""
    if cell_len(text) <= limit:
        return text
    widths = accumulate(cell_len(letter) for letter in text)
    return "".join(letter for letter, end in zip(text, widths, strict=True) if end < limit) + "…"


def amount(weight: float) -> str:
    """A weight in few digits, for the ends of a scale."""
    digits = f"{weight:.2g}" if weight < 0.1 else f"{weight:.2f}".rstrip("0").rstrip(".")
    return "0" if weight == 0 else digits


def letters(text: str) -> list[str]:
    """The text letter by letter, accents staying with theirs."""
    found: list[str] = []
    for each in text:
        if found and unicodedata.category(each) in ("Mn", "Me"):
            found[-1] += each
        else:
            found.append(each)
    return found


def _visible(letter: str, category: str) -> str:
    number = ord(letter)
    if number < 32:
        return chr(0x2400 + number)  # the control pictures, in the order of the control characters
    if number == 127:
        return "␡"
    if category == "Zs":
        return " "
    return UNSHOWN if category in _INVISIBLE else letter


def _marked_ends(text: str) -> str:
    body = text.strip(" ")
    if not body:
        return "␣" * len(text)
    start = len(text) - len(text.lstrip(" "))
    return "␣" * start + body + "␣" * (len(text) - start - len(body))
