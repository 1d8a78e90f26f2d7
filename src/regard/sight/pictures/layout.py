"""Where the parts of a heat map go, in the units it is seen at. PNG and SVG share it, so they agree."""

import math
from dataclasses import dataclass

from regard.sight.pictures.heatmap import Heatmap
from regard.sight.pictures.lettering import length

MARGIN = 20.0
TITLE, NOTE = 18.0, 12.5
_LARGEST, _PICTURE = 36, 600  # a cell, and all of them together


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The corner of the first cell, the size of a cell, and what is around them."""

    cell: int
    left: float
    top: float
    width: float
    height: float
    text: float  # the size of the labels
    step: int  # every which label is written
    angle: float  # of the labels of the keys
    bar: tuple[float, float, float, float]  # left, top, width, height

    def corner(self, query: int, key: int) -> tuple[float, float]:
        """Where a cell starts."""
        return self.left + key * self.cell, self.top + query * self.cell


def place(picture: Heatmap, *, cell: int | None = None, angle: float = 45.0) -> Layout:
    """Lay a heat map out: title and note above, keys along the top, queries on the left, the colours on the right."""
    queries, keys = picture.weights.shape
    cell = cell or max(1, min(_LARGEST, _PICTURE // max(queries, keys)))
    text = min(15.0, max(8.0, 0.5 * cell + 2))
    step = math.ceil(text / cell)
    longest = [
        max((length(label, text) for label in labels[::step]), default=0.0)
        for labels in (picture.queries, picture.keys)
    ]
    turn = math.radians(angle)
    ahead = (TITLE * 1.55 if picture.title else 0.0) + (NOTE * 1.9 if picture.note else 0.0)
    left = MARGIN + longest[0] + 8
    top = MARGIN + ahead + longest[1] * math.sin(turn) + text * math.cos(turn) + 6
    right = left + keys * cell
    bar = (right + 16, top, 9.0, float(min(queries * cell, max(3 * cell, 96))))
    # A slanted label leans over the columns to its right.
    ends = [
        right - (keys - index - 0.5) * cell + length(label, text) * math.cos(turn)
        for index, label in enumerate(picture.keys)
    ]
    scale = bar[0] + bar[2] + 6 + length("0.00", text)
    words = max(length(picture.title, TITLE), length(picture.note, NOTE)) + MARGIN
    return Layout(
        cell=cell,
        left=left,
        top=top,
        width=math.ceil(max(scale, *ends, words) + MARGIN),
        height=math.ceil(top + queries * cell + MARGIN),
        text=text,
        step=step,
        angle=angle,
        bar=bar,
    )


def amount(weight: float) -> str:
    """A weight in few digits, for the ends of the scale."""
    return (
        "0" if weight == 0 else f"{weight:.2g}" if weight < 0.1 else f"{weight:.2f}".rstrip("0").rstrip(".")
    )
