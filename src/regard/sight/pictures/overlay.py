"""An overlay: an image lit where a model looks, once or for each word it says."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, UInt8
from numpy.typing import NDArray
from PIL import Image
from rich.console import RenderableType

from regard.errors import RegardError
from regard.sight.pictures.colours import FAINT, INK
from regard.sight.pictures.drawable import Photo, Weights, amounts, levels, photo, positive
from regard.sight.pictures.png import length
from regard.sight.pictures.scene import MARGIN, Drawing, Label, Mark, Pixels, Scene, amount, head, page, plain

MAX_WORDS = 64  # words
_PAGE, _LARGEST, _SEVERAL = 760.0, 360.0, 170.0  # widths: of a page, of a single picture, of one of several
_TEXT, _SMALL, _GAP = 15.0, 10.5, 12.0
_WIDE = 2.5  # width / height beyond which a picture takes a whole row
_SHOWN = 720  # pixels along the longer edge
_TINY = 64  # pixels along the longer edge, up to which they are shown as squares


@dataclass(frozen=True, kw_only=True, eq=False)
class Overlay(Drawing):
    """An image and grids of weights over it; made by `overlay`."""

    image: UInt8[np.ndarray, "height width 3"]
    grids: Float[np.ndarray, "n rows columns"]
    words: tuple[str, ...]  # one a grid; a single empty one where nothing is said
    smooth: bool
    alpha: float
    top: float | None
    title: str
    note: str

    def lit(self, index: int) -> NDArray[np.uint8]:
        """The image under one grid: as it is where the weight is largest, darkened and greyed where there is none."""
        height, width = self.image.shape[:2]
        veil = self.alpha * (1 - self._spread(index, height, width))[..., None]
        grey = self.image @ np.array([0.299, 0.587, 0.114])
        night = 0.25 * grey[..., None] + 0.75 * np.array(INK, dtype=np.float64)
        return np.rint(self.image * (1 - veil) + night * veil).clip(0, 255).astype(np.uint8)

    @property
    def wide(self) -> bool:
        """Whether the image is so wide that each picture takes a whole row."""
        return self.image.shape[1] > _WIDE * self.image.shape[0]

    def scene(self) -> Scene:
        """The pictures in rows, each with its word; the bare image first where there are several."""
        marks, top, reach = head(self.title, self.note)
        top += 4 if self.title or self.note else 0
        spoken = bool(self.words[0])
        left = MARGIN
        if self.wide and spoken:
            left += max(length(word, _TEXT) for word in self.words) + _GAP
        wide, high, across = self._size(_PAGE - left)
        pitch = high + (_GAP if self.wide else 2.6 * _TEXT if spoken else 0)
        shown = [-1, *range(len(self.words))] if spoken else [0]
        for place, index in enumerate(shown):
            x, y = left + place % across * (wide + _GAP), top + place // across * pitch
            pixels = _shrunk(self.image if index < 0 else self.lit(index), wide, high)
            said = "" if index < 0 else f"{self.words[index]} {amount(self._top(index))}".strip()
            marks.append(Pixels(x=x, y=y, width=wide, height=high, pixels=pixels, blocky=False, said=said))
            if index >= 0 and spoken:
                marks += self._caption(index, x, y, wide, high)
        rows = -(-len(shown) // across)
        bottom = top + (rows - 1) * pitch + high + (1.5 * _TEXT if spoken and not self.wide else 0) + MARGIN
        width = max(left + min(across, len(shown)) * (wide + _GAP) - _GAP, reach) + MARGIN
        return page(self.title, marks, width, bottom)

    def terminal(self) -> RenderableType:
        """The pictures for a rich console, two pixels to a character; only the weights where there is no colour."""
        from regard.sight.pictures.terminal import TerminalTile, Tiles

        height, width = self.image.shape[:2]
        columns = 64 if self.wide else 24
        size = (columns, max(2, round(columns * height / width)))
        tiles = []
        for index, word in enumerate(self.words):
            small = np.asarray(Image.fromarray(self.lit(index)).resize(size, Image.Resampling.BOX))
            spread = self._spread(index, size[1], size[0])
            tiles.append(TerminalTile(levels=spread, pixels=small, caption="" if self.wide else word))
        if self.wide:
            return Tiles(rows=tuple((word, (tile,)) for word, tile in zip(self.words, tiles, strict=True)))
        return Tiles(rows=(("", tuple(tiles)),))

    def _top(self, index: int) -> float:
        return self.top or float(self.grids[index].max())

    def _spread(self, index: int, height: int, width: int) -> NDArray[np.float64]:
        """The levels of one grid over that many pixels."""
        part = Image.fromarray(levels(self.grids[index], self._top(index)).clip(0, 1).astype(np.float32))
        way = Image.Resampling.BILINEAR if self.smooth else Image.Resampling.NEAREST
        return np.asarray(part.resize((width, height), way), dtype=np.float64)

    def _size(self, page: float) -> tuple[int, int, int]:
        """The width and height of each picture, and how many are in a row."""
        height, width = self.image.shape[:2]
        count = len(self.words) + 1 if self.words[0] else 1
        rows = count if self.wide else math.ceil(count / 6)
        across = math.ceil(count / rows)
        most = page if self.wide else _LARGEST if count == 1 else _SEVERAL
        wide = round(min(most, (page - (across - 1) * _GAP) / across))
        return wide, max(1, round(wide * height / width)), across

    def _caption(self, index: int, x: float, y: float, wide: float, high: float) -> list[Mark]:
        """A word and its largest weight: beneath its picture, or to the left of a wide one."""
        word, number = self.words[index], amount(float(self.grids[index].max()))
        if self.wide:
            x, y = x - _GAP, y + high / 2
            return [
                Label(x, y - 6, word, _TEXT, anchor="right"),
                Label(x, y + 10, number, _SMALL, FAINT, anchor="right"),
            ]
        first = length(word, _TEXT)
        x, y = x + (wide - first - 7 - length(number, _SMALL)) / 2, y + high + 0.95 * _TEXT
        return [
            Label(x, y, word, _TEXT),
            Label(x + first + 7, y + 1, number, _SMALL, FAINT),
        ]


def overlay(
    image: Photo,
    weights: Weights,
    *,
    words: Sequence[str] | None = None,
    grid: tuple[int, int] | None = None,
    special: int = 0,
    smooth: bool = True,
    alpha: float = 0.8,
    title: str = "",
    note: str = "",
    top: float | None = None,
) -> Overlay:
    """The image lit where the weights of its patches are large: weights [rows, columns], over all of the image.

    With `words`, one picture for each: weights [words, rows, columns]. With `grid`, the rows and columns, each
    grid may be a flat list; the first `special` of it (a class token) are left out. `smooth` blends neighbouring
    patches; `alpha` is how far what is not looked at goes dark. `top` is the weight that is fully lit, by default
    the largest of each grid, which is written beside its word. Sound: `overlay(spectrogram(bands), w, grid=(1, n))`.
    """
    pixels = photo(image)
    values = amounts("weights", weights)
    count = None if words is None else len(words)
    values = _grids(values if words is not None else values[None], grid, special)
    if values.ndim != 3 or not values.size or len(values) > MAX_WORDS or count not in (None, len(values)):
        raise RegardError(
            f"weights {np.shape(weights)} for {'an image' if count is None else f'{count} words'}: give [rows, "
            f"columns], or with 1 to {MAX_WORDS} words [words, rows, columns]; a flat list needs grid=(rows, columns)"
        )
    if not 0 <= alpha <= 1:
        raise RegardError(f"alpha={alpha}: give a number from 0 (not darkened) to 1 (dark)")
    return Overlay(
        image=_fitted(pixels),
        grids=values,
        words=("",) if words is None else tuple(plain(word) or "␣" for word in words),
        smooth=smooth,
        alpha=float(alpha),
        top=positive("top", top),
        title=plain(title, 96),
        note=plain(note, 160),
    )


def _grids(values: NDArray[np.float64], grid: tuple[int, int] | None, special: int) -> NDArray[np.float64]:
    if grid is None:
        if special:
            raise RegardError(
                f"special={special} without a grid: give grid=(rows, columns) of the patches after them"
            )
        return values
    rows, columns = grid
    flat = values.reshape(len(values), -1) if values.size else values
    if min(rows, columns) < 1 or special < 0 or flat.shape[-1] != rows * columns + special:
        raise RegardError(
            f"{flat.shape[-1]} weights for {rows} × {columns} patches and special={special}: that needs "
            f"{rows * columns + special}; special is how many tokens come before the patches"
        )
    return flat[:, special:].reshape(-1, rows, columns)


def _fitted(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The image as large as it is shown: what is smaller would blur the grid, and more is not seen."""
    most = max(pixels.shape[:2])
    size = [max(1, round(side * _SHOWN / most)) for side in (pixels.shape[1], pixels.shape[0])]
    # So small an image is known by its pixels.
    way = Image.Resampling.NEAREST if most <= _TINY else Image.Resampling.BICUBIC
    return np.asarray(Image.fromarray(pixels).resize((size[0], size[1]), way))


def _shrunk(pixels: NDArray[np.uint8], wide: float, high: float) -> NDArray[np.uint8]:
    """No more pixels than two to a unit."""
    size = (round(2 * wide), round(2 * high))
    if size[0] >= pixels.shape[1]:
        return pixels
    return np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.BOX))
