"""A scene: marks at their places, in the units they are seen at. PNG and SVG are drawn from it, so they agree."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from regard.errors import RegardError
from regard.sight.pictures.colours import FAINT, INK, Colour
from regard.sight.pictures.layout import MARGIN, NOTE, TITLE
from regard.sight.pictures.lettering import length


@dataclass(frozen=True, kw_only=True)
class Words:
    """Text whose middle line starts, has its middle or ends at a place."""

    x: float
    y: float
    text: str
    size: float
    ink: Colour = INK
    anchor: str = "left"  # "middle", "right"


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


@dataclass(frozen=True, kw_only=True)
class Ribbon:
    """A line from left to right that leaves and arrives level."""

    start: tuple[float, float]
    end: tuple[float, float]
    thick: float
    ink: Colour
    opacity: float = 1.0
    said: str = ""


@dataclass(frozen=True, kw_only=True)
class Stroke:
    """A line through places, in one go or in dashes: (drawn, left out, drawn …) long."""

    places: tuple[tuple[float, float], ...]
    thick: float
    ink: Colour
    dashes: tuple[float, ...] = ()
    said: str = ""


@dataclass(frozen=True, kw_only=True)
class Dot:
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


Mark = Words | Box | Ribbon | Stroke | Dot | Pixels
AnyMark = TypeVar("AnyMark", bound=Mark)


@dataclass(frozen=True, kw_only=True, eq=False)
class Scene:
    """Marks, the first at the back, on a page."""

    width: int
    height: int
    title: str
    marks: Sequence[Mark]


@runtime_checkable
class Picture(Protocol):
    """What can be written to a file."""

    def png(self, path: str | PathLike[str]) -> None:
        """Write the picture as PNG."""

    def svg(self, path: str | PathLike[str]) -> None:
        """Write the picture as SVG."""


def write(picture: Picture, path: str | PathLike[str]) -> None:
    """Write a picture as what the name of the file says: .png or .svg."""
    suffix = Path(path).suffix.lower()
    if suffix == ".png":
        picture.png(path)
    elif suffix == ".svg":
        picture.svg(path)
    else:
        raise RegardError(
            f"{path}: a picture is written as .png or .svg, not as {suffix or 'a file without either'}"
        )


class Drawn(ABC):
    """What can be drawn as a scene can be written as PNG and SVG, and shows itself in a notebook."""

    @abstractmethod
    def scene(self) -> Scene:
        """The marks of the picture."""

    def png(self, path: str | PathLike[str]) -> None:
        """Write the picture as PNG, at twice the size it is meant to be seen at."""
        from regard.sight.pictures.paint import image
        from regard.sight.pictures.raster import save

        save(image(self.scene()), path)

    def svg(self, path: str | PathLike[str]) -> None:
        """Write the picture as SVG, where marks name their weight when pointed at."""
        from regard.sight.pictures.markup import document
        from regard.sight.pictures.vector import save

        save(document(self.scene()), path)

    def write(self, path: str | PathLike[str]) -> None:
        """Write the picture as PNG or SVG, by the suffix of the file."""
        write(self, path)

    def _repr_html_(self) -> str:
        from regard.sight.pictures.markup import document, inline

        return inline(document(self.scene()))


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
    marks: list[Mark] = []
    y = MARGIN
    if title:
        marks.append(Words(x=MARGIN, y=y + TITLE / 2, text=title, size=TITLE))
        y += TITLE * 1.55
    if note:
        marks.append(Words(x=MARGIN, y=y + NOTE / 2, text=note, size=NOTE, ink=FAINT))
        y += NOTE * 1.9
    widest = max(length(title, TITLE), length(note, NOTE))
    return marks, y, MARGIN + widest
