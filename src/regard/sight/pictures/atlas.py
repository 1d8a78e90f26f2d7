"""An atlas: a small map for every head of every layer, to see at a glance which one to look at."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray
from rich.console import RenderableType
from torch import Tensor

from regard.errors import RegardError
from regard.sight.layer import Layer
from regard.sight.pictures.colours import FAINT, HATCH, shade
from regard.sight.pictures.drawable import Weights, amounts, levels, positive
from regard.sight.pictures.png import length
from regard.sight.pictures.scene import (
    MARGIN,
    NOTE,
    Box,
    Drawing,
    Label,
    Mark,
    Pixels,
    Scene,
    amount,
    head,
    page,
    plain,
)
from regard.sight.seen import Seen

MAX_MAPS = (48, 64)  # layers and heads on one page
_CELLS = 512  # along an edge of a map
_PAGE, _LARGEST, _SMALLEST = 760.0, 88.0, 24.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Atlas(Drawing):
    """Maps [heads, height, width], one array a layer; made by `atlas`."""

    maps: tuple[NDArray[np.float64], ...]
    layers: tuple[str, ...]
    heads: tuple[str, ...]
    numbers: tuple[tuple[float, ...], ...] | None
    measure: str
    top: float | None
    title: str
    note: str

    def levels(self, layer: int, head: int) -> NDArray[np.float64]:
        """One map as parts of its darkest weight, or of that of the page."""
        values = self.maps[layer][head]
        return levels(values, self.top or float(values.max())).clip(0, 1)

    def scene(self) -> Scene:
        """A row for each layer and a column for each head, with a number beneath each map."""
        marks, y, reach = head(self.title, self.note)
        text, gap = (13.0, 10) if len(self.heads) <= 16 else (10.5, 6)
        left = MARGIN + max(length(name, text) for name in self.layers) + 10
        sizes = [self._size(layer, left) for layer in range(len(self.maps))]
        column = max(wide for wide, _ in sizes)
        pitch = column + gap
        small = max(7.5, min(10.5, 0.2 * pitch))
        for index, name in enumerate(self.heads):
            x = left + index * pitch + column / 2
            marks.append(Label(x, y + text / 2, name, text, anchor="middle"))
        y += text + 10
        for layer, (wide, high) in enumerate(sizes):
            marks.append(Label(left - 9, y + high / 2, self.layers[layer], text, anchor="right"))
            for index in range(len(self.maps[layer])):
                x = left + index * pitch + (column - wide) / 2
                marks += self._tile(layer, index, (x, y, wide, high), small)
            y += high + (small + 10 if self.numbers else 8)
        foot, end = self._foot(left, y + 4)
        width = max(left + len(self.heads) * pitch, end, reach) + MARGIN
        return page(self.title, [*marks, *foot], width, y + 4 + NOTE + MARGIN)

    def terminal(self) -> RenderableType:
        """The atlas for a rich console, two cells to a character."""
        from regard.sight.pictures.terminal import TerminalTile, Tiles

        rows = []
        for layer, maps in enumerate(self.maps):
            captions = [""] * len(maps) if self.numbers is None else map(_digits, self.numbers[layer])
            tiles = (TerminalTile(levels=self.levels(layer, h), caption=c) for h, c in enumerate(captions))
            rows.append((self.layers[layer], tuple(tiles)))
        return Tiles(rows=tuple(rows), columns=self.heads)

    def _size(self, layer: int, left: float) -> tuple[float, float]:
        """The width and height of the maps of a layer: whole pixels for each cell where there are enough."""
        side = min(_LARGEST, max(_SMALLEST, (_PAGE - left) / len(self.heads) - 10))
        height, width = self.maps[layer].shape[1:]
        pixels = 2 * side / max(height, width)
        cell = math.floor(pixels) / 2 if pixels >= 1 else side / max(height, width)
        return max(cell * width, side / 4), max(cell * height, side / 4)

    def _tile(
        self, layer: int, index: int, place: tuple[float, float, float, float], small: float
    ) -> list[Mark]:
        x, y, wide, high = place
        largest = float(self.maps[layer][index].max())
        said = f"{self.layers[layer]}, {self.heads[index]}: at most {amount(largest)}"
        pixels = shade(self.levels(layer, index))
        marks: list[Mark] = [
            Pixels(x=x, y=y, width=wide, height=high, pixels=pixels, said=said),
            Box(x=x, y=y, width=wide, height=high, edge=HATCH, thick=0.5),
        ]
        if self.numbers is not None:
            text, y = _digits(self.numbers[layer][index]), y + high + 3 + small / 2
            marks.append(Label(x + wide / 2, y, text, small, FAINT, anchor="middle"))
        return marks

    def _foot(self, x: float, y: float) -> tuple[list[Mark], float]:
        """What the colours and the numbers mean, and how far right that reaches."""
        most = "the largest weight of each map" if self.top is None else amount(self.top)
        text = most + (f"; below each map: {self.measure}" if self.numbers is not None else "")
        ramp = shade(np.linspace(0, 1, 140))[None]
        size, y = 0.85 * NOTE, y + NOTE / 2
        return [
            Label(x, y, "0", size, FAINT),
            Pixels(x=x + 12, y=y - 4, width=70, height=8, pixels=ramp, blocky=False),
            Box(x=x + 12, y=y - 4, width=70, height=8, edge=HATCH, thick=0.5),
            Label(x + 88, y, text, size, FAINT),
        ], x + 88 + length(text, size)


def atlas(
    maps: Sequence[Weights],
    *,
    layers: Sequence[str] | None = None,
    heads: Sequence[str] | None = None,
    numbers: Sequence[Weights] | None = None,
    measure: str = "entropy",
    top: float | None = None,
    title: str = "",
    note: str = "",
) -> Atlas:
    """Small maps of layers (downwards) by heads (across), from one [heads, height, width] for each layer.

    `numbers` [heads] for each layer are written beneath the maps; `measure` says what they are. Without `top`,
    each map has its own darkest colour; with it, all share one: the weight `top`.
    """
    found = tuple(amounts("maps", each) for each in maps)
    if not 1 <= len(found) <= MAX_MAPS[0]:
        raise RegardError(f"{len(found)} layers: an atlas shows 1 to {MAX_MAPS[0]}; choose some")
    for index, each in enumerate(found):
        if each.ndim != 3 or not each.size or len(each) > MAX_MAPS[1] or max(each.shape[1:]) > _CELLS:
            raise RegardError(
                f"the maps of layer {index} are {each.shape}: give [heads, height, width], at most {MAX_MAPS[1]} heads "
                f"and {_CELLS} cells along an edge; layer.map(24, 24) pools them"
            )
    most = max(map(len, found))
    return Atlas(
        maps=found,
        layers=_names("layers", layers, len(found), 28),
        heads=_names("heads", heads, most, 12),
        numbers=None if numbers is None else _numbers(numbers, found),
        measure=plain(measure, 48),
        top=positive("top", top),
        title=plain(title, 96),
        note=plain(note, 160),
    )


def overview(seen: Seen | Layer, *, cells: int = 24, entry: int = 0, title: str = "") -> Atlas:
    """An atlas of the calls in the order they happened, each pooled into at most `cells` × `cells`.

    `entry` is the one of the batch that is shown. Beneath each map is the entropy of its head, the mean over the
    queries. What is more than a page holds is left out, and the note says so.
    """
    every = [seen] if isinstance(seen, Layer) else list(seen.layers)
    if not every:
        raise RegardError("no attention call was seen, so there is nothing to show")
    shown = every[: MAX_MAPS[0]]
    maps = [_entry(layer, layer.map(cells, cells), entry, 2) for layer in shown]
    spread = [_entry(layer, layer.entropy(), entry, 1).float().mean(-1) for layer in shown]
    heads = max(map(len, maps))
    left_out = [f"{len(shown)} of {len(every)} calls"] if len(every) > len(shown) else []
    left_out += [f"{MAX_MAPS[1]} of {heads} heads"] if heads > MAX_MAPS[1] else []
    return atlas(
        [each[: MAX_MAPS[1]] for each in maps],
        layers=short([layer.name for layer in shown]),
        numbers=[each[: MAX_MAPS[1]].clamp_min(0) for each in spread],
        measure="mean entropy in nats",
        title=title,
        note=", ".join(["rows: calls, columns: heads", *left_out]),
    )


def html(seen: Seen | Layer) -> str:
    """The overview as HTML for a notebook; if it cannot be drawn, the names of the calls and the reason."""
    try:
        return overview(seen)._repr_html_()
    except RegardError as error:
        return f"<pre>{escape(repr(seen))}\n{escape(str(error))}</pre>"


def short(names: list[str]) -> list[str]:
    """Module paths without what all of them begin and end with."""
    paths = [name.split(".") for name in names]
    if len(set(names)) == 1:
        return [paths[0][-1]] * len(names)
    while all(len(path) > 1 for path in paths) and len({path[0] for path in paths}) == 1:
        paths = [path[1:] for path in paths]
    while all(len(path) > 1 for path in paths) and len({path[-1] for path in paths}) == 1:
        paths = [path[:-1] for path in paths]
    return [".".join(path) for path in paths]


def _digits(number: float) -> str:
    return f"{number:.2f}" if number < 10 else f"{number:.1f}" if number < 100 else f"{number:.3g}"


def _names(what: str, given: Sequence[str] | None, count: int, limit: int) -> tuple[str, ...]:
    names = [plain(name, limit) for name in (map(str, range(count)) if given is None else given)]
    if len(names) != count:
        raise RegardError(f"{len(names)} names for {count} {what}")
    return tuple(names)


def _numbers(
    given: Sequence[Weights], maps: tuple[NDArray[np.float64], ...]
) -> tuple[tuple[float, ...], ...]:
    found = [amounts("numbers", each) for each in given]
    if [each.shape for each in found] != [each.shape[:1] for each in maps]:
        raise RegardError(
            f"numbers {[each.shape for each in found]} for maps {[each.shape for each in maps]}: give one a head"
        )
    return tuple(tuple(each.tolist()) for each in found)


def _entry(layer: Layer, answer: Tensor, entry: int, tail: int) -> Tensor:
    """The answer for one of the batch, [heads, …]: a call without a batch, or without heads, has one of each."""
    while answer.ndim > tail + 1:
        if not -len(answer) <= entry < len(answer):
            raise RegardError(f"entry={entry}, but {layer.name} attended for a batch of {len(answer)}")
        answer, entry = answer[entry], 0
    return answer if answer.ndim == tail + 1 else answer[None]
