"""A heat map: how much each query looks at each key, as a value that can be drawn on paper and in a terminal."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from rich.console import Group, RenderableType
from rich.text import Text
from torch import Tensor

from regard.errors import RegardError
from regard.sight.pictures.colours import FAINT, HATCH, INK, shade
from regard.sight.pictures.drawable import Weights, amounts, levels, positive
from regard.sight.pictures.png import length
from regard.sight.pictures.scene import (
    MARGIN,
    Box,
    CellGrid,
    Drawing,
    Label,
    Mark,
    Pixels,
    Scene,
    amount,
    head,
    page,
    placed,
    plain,
)

MAX_CELLS = 2048  # cells along an edge: beyond, no screen shows them apart
_LARGEST, _PICTURE = 36, 600  # a cell, and all of them together
_PALE = 0.6  # how dark the darkest grey is


def weight_scale(x: float, y: float, tall: float, top: float, size: float) -> list[Mark]:
    """The scale of the colours of weights, 0 at its foot; its labels are of this size."""
    ramp = shade(np.linspace(1.0, 0.0, round(2 * tall)))[:, None]
    return [
        Pixels(x=x, y=y, width=9, height=tall, pixels=ramp),
        Box(x=x, y=y, width=9, height=tall, edge=HATCH, thick=0.5),
        Label(x + 14, y + 5, amount(top), size, FAINT),
        Label(x + 14, y + tall - 5, "0", size, FAINT),
    ]


@dataclass(frozen=True, kw_only=True)
class MapLayout:
    """The corner of the first cell, the size of a cell, and what is around them."""

    cell: int
    left: int
    top: int
    width: int
    height: int
    text: float  # the size of the labels
    step: int  # every which label of the queries is written
    across: int  # and of the keys
    angle: float  # of the labels of the keys
    bar: tuple[float, float]  # the corner of the scale
    tall: float  # the height of the scale

    def corner(self, query: int, key: int) -> tuple[float, float]:
        """Where a cell starts."""
        return self.left + key * self.cell, self.top + query * self.cell


@dataclass(frozen=True, kw_only=True, eq=False)
class Heatmap(Drawing):
    """Weights with their tokens; made by `heatmap`."""

    weights: Float[np.ndarray, "q k"]
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    allowed: Bool[np.ndarray, "q k"]
    title: str
    note: str
    top: float
    aside: int = 0  # of the last keys: no words, but what weights also go to; drawn in grey

    def levels(self) -> NDArray[np.float64]:
        """The weights as parts of the darkest one."""
        return levels(self.weights, self.top)

    def shades(self) -> NDArray[np.uint8]:
        """The colour of every cell, [queries, keys, 3]; keys that are set apart are in grey, paler than words."""
        colours = shade(self.levels())
        words = len(self.keys) - self.aside
        dark = 255 - colours[:, words:] @ np.array([0.2126, 0.7152, 0.0722])  # luma: red, green, blue
        colours[:, words:] = (255 - _PALE * dark).round().astype(np.uint8)[..., None]
        return colours

    def layout(self, *, cell: int | None = None, angle: float = 45.0) -> MapLayout:
        """Title and note above, keys along the top, queries on the left, the scale of colours on the right."""
        _, ahead, reach = head(self.title, self.note)
        queries, keys = self.weights.shape
        cell = cell or max(1, min(_LARGEST, _PICTURE // max(queries, keys)))
        text = min(15.0, max(8.0, 0.5 * cell + 2))
        step = math.ceil(text / cell)
        up, along = math.sin(math.radians(angle)), math.cos(math.radians(angle))
        across = math.ceil(0.95 * text / (cell * up))  # slanted lines of text are nearer to one another
        above = {index: length(self.keys[index], text) for index in range(0, keys, across)}
        left = math.ceil(MARGIN + max(length(query, text) for query in self.queries[::step]) + 8)
        top = math.ceil(ahead + max(above.values()) * up + text * along + 6)
        right = left + keys * cell
        # A slanted label leans over the columns to its right.
        ends = [left + (index + 0.5) * cell + wide * along + text * up / 2 for index, wide in above.items()]
        tall = float(min(queries * cell, max(3 * cell, 96)))
        scale = right + 31 + length("0.00", text)
        return MapLayout(
            cell=cell,
            left=left,
            top=top,
            width=math.ceil(max(scale, *ends, reach) + MARGIN),
            height=math.ceil(top + queries * cell + MARGIN),
            text=text,
            step=step,
            across=across,
            angle=angle,
            bar=(right + 16.0, float(top)),
            tall=tall,
        )

    def scene(self, layout: MapLayout | None = None) -> Scene:
        """The cells between their labels, and the scale of their colours."""
        layout = layout or self.layout()
        marks, _, _ = head(self.title, self.note)
        cells = CellGrid(
            x=layout.left,
            y=layout.top,
            side=layout.cell,
            colours=self.shades(),
            hidden=~self.allowed,
            said=self._said,
        )
        marks += [
            *self._labels(layout),
            cells,
            *weight_scale(*layout.bar, layout.tall, self.top, 0.85 * layout.text),
        ]
        return page(self.title, marks, layout.width, layout.height)

    def terminal(self, *, compact: bool = False) -> RenderableType:
        """The picture for a rich console: with labels, or compact, without and two queries a line."""
        from regard.sight.pictures.terminal import TerminalMap

        return TerminalMap(self, compact=compact)

    def _said(self, query: int, key: int) -> str:
        seen = self.allowed[query, key]
        weight = f"{self.weights[query, key]:.3g}" if seen else "may not look"
        return f"{self.queries[query]} → {self.keys[key]}: {weight}"

    def _labels(self, layout: MapLayout) -> Iterator[Mark]:
        half, words = layout.cell / 2, len(self.keys) - self.aside
        for index in range(0, len(self.queries), layout.step):
            x, y = layout.corner(index, 0)
            yield Label(x - 7, y + half, self.queries[index], layout.text, anchor="right")
        for index in range(0, len(self.keys), layout.across):
            x, y = layout.corner(0, index)
            ink = INK if index < words else FAINT
            yield Label(x + half, y - 7, self.keys[index], layout.text, ink, angle=layout.angle)


def heatmap(
    weights: Weights,
    queries: Sequence[str],
    keys: Sequence[str],
    *,
    allowed: Tensor | NDArray[np.bool_] | None = None,
    title: str = "",
    note: str = "",
    top: float | None = None,
    aside: int = 0,
) -> Heatmap:
    """A heat map of weights [q, k], a token for each query (downwards) and each key (across).

    Cells that are False in `allowed` are hatched. `top` is the weight of the darkest colour, by default the
    largest one; give several maps the same `top` to compare them. The last `aside` keys are set apart in grey, as the
    end token of a sentence.
    """
    values = amounts("weights", weights)
    if values.shape != (len(queries), len(keys)):
        raise RegardError(
            f"weights {values.shape} for {len(queries)} queries and {len(keys)} keys: give one matrix [queries, keys], "
            "of one of the batch and one head, with one token a row and one a column"
        )
    if not values.size or max(values.shape) > MAX_CELLS:
        raise RegardError(
            f"weights {values.shape}: a picture has from 1 to {MAX_CELLS} queries and keys; choose or pool"
        )
    given = allowed.detach().cpu().numpy() if isinstance(allowed, Tensor) else allowed
    seen = np.ones(values.shape, dtype=bool) if given is None else np.asarray(given)
    if seen.shape != values.shape or seen.dtype != np.bool_:
        raise RegardError(
            f"allowed is {seen.dtype} {seen.shape}, the weights are {values.shape}: give a bool for each cell, "
            "True = may look"
        )
    if not 0 <= aside < len(keys):
        raise RegardError(f"aside={aside} of {len(keys)} keys: set fewer than all apart")
    return Heatmap(
        weights=values,
        queries=tuple(plain(token) for token in queries),
        keys=tuple(plain(token) for token in keys),
        allowed=seen,
        title=plain(title, 96),
        note=plain(note, 160),
        top=positive("top", top) or float(values.max()),
        aside=aside,
    )


_SHEET_CELL, _SHEET_MAP = 18, 240  # of a sheet: the largest cell, and the largest map


@dataclass(frozen=True, eq=False)
class Sheet(Drawing):
    """Rows of heat maps, to be compared; made by `sheet`."""

    rows: tuple[tuple[Heatmap, ...], ...]

    def scene(self) -> Scene:
        """Cells of one size, the maps of a column under one another."""
        most = max(max(picture.weights.shape) for row in self.rows for picture in row)
        cell = max(1, min(_SHEET_CELL, _SHEET_MAP // most))
        scenes = [[each.scene(each.layout(cell=cell, angle=90.0)) for each in row] for row in self.rows]
        return page("", *placed(scenes))

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
