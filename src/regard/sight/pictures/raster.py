"""Heat maps as PNG, drawn with pillow."""

from io import BytesIO
from os import PathLike

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from regard.data.atomic import write_atomically
from regard.sight.pictures.colours import FAINT, HATCH, HIDDEN, INK, PAPER, shade
from regard.sight.pictures.heatmap import Heatmap
from regard.sight.pictures.layout import MARGIN, NOTE, TITLE, Layout, amount, place
from regard.sight.pictures.lettering import letter

SCALE = 2  # pixels to a unit: crisp on the screens of today
_PALE = 0.6  # how dark the darkest grey is


def draw(picture: Heatmap, layout: Layout | None = None) -> Image.Image:
    """The whole picture as an image."""
    layout = layout or place(picture)
    image = Image.new("RGB", (round(layout.width * SCALE), round(layout.height * SCALE)), PAPER)
    image.paste(
        Image.fromarray(cells(picture, layout)), (round(layout.left * SCALE), round(layout.top * SCALE))
    )
    _head(image, picture)
    _labels(image, picture, layout)
    _scale(image, picture, layout)
    return image


def save(image: Image.Image, path: str | PathLike[str]) -> None:
    """Write an image as PNG, and say plainly when that cannot be done."""
    held = BytesIO()
    image.save(held, format="PNG", optimize=True)
    write_atomically(path, held.getvalue())


def shades(picture: Heatmap) -> NDArray[np.uint8]:
    """The colour of every cell, [queries, keys, 3]; keys that are set apart are in pale grey, behind the words."""
    colours = shade(picture.levels)
    words = len(picture.keys) - picture.aside
    dark = 255 - colours[:, words:] @ np.array([0.2126, 0.7152, 0.0722])  # luma: red, green, blue
    colours[:, words:] = (255 - _PALE * dark).round().astype(np.uint8)[..., None]
    return colours


def cells(picture: Heatmap, layout: Layout) -> NDArray[np.uint8]:
    """The cells alone: flat colour, hatched where hidden, a thin line of paper between them if they are large."""
    side = layout.cell * SCALE
    pixels = shades(picture).repeat(side, 0).repeat(side, 1)
    hidden = (~picture.allowed).repeat(side, 0).repeat(side, 1)
    rows, columns = np.ogrid[: pixels.shape[0], : pixels.shape[1]]
    lines = (rows + columns) % (6 * SCALE) < SCALE
    pixels[hidden] = HIDDEN
    pixels[hidden & lines] = HATCH
    if layout.cell >= 6:
        pixels[(rows % side >= side - SCALE) | (columns % side >= side - SCALE)] = PAPER
    return pixels


def _head(image: Image.Image, picture: Heatmap) -> None:
    y = MARGIN
    if picture.title:
        letter(image, (MARGIN * SCALE, (y + TITLE / 2) * SCALE), picture.title, size=TITLE * SCALE)
        y += TITLE * 1.55
    if picture.note:
        letter(image, (MARGIN * SCALE, (y + NOTE / 2) * SCALE), picture.note, size=NOTE * SCALE, ink=FAINT)


def _labels(image: Image.Image, picture: Heatmap, layout: Layout) -> None:
    size = layout.text * SCALE
    for index in range(0, len(picture.queries), layout.step):
        x, y = layout.corner(index, 0)
        spot = ((x - 7) * SCALE, (y + layout.cell / 2) * SCALE)
        letter(image, spot, picture.queries[index], size=size, anchor="right")
    for index in range(0, len(picture.keys), layout.step):
        x, y = layout.corner(0, index)
        spot = ((x + layout.cell / 2) * SCALE, (y - 7) * SCALE)
        apart = index >= len(picture.keys) - picture.aside
        letter(image, spot, picture.keys[index], size=size, angle=layout.angle, ink=FAINT if apart else INK)


def _scale(image: Image.Image, picture: Heatmap, layout: Layout) -> None:
    left, top, width, height = (round(part * SCALE) for part in layout.bar)
    ramp = shade(np.linspace(1.0, 0.0, height))[:, None].repeat(width, 1)
    image.paste(Image.fromarray(ramp), (left, top))
    ImageDraw.Draw(image).rectangle((left, top, left + width - 1, top + height - 1), outline=HATCH)
    for text, y in ((amount(picture.top), top + 5 * SCALE), ("0", top + height - 5 * SCALE)):
        letter(image, (left + width + 5 * SCALE, y), text, size=0.85 * layout.text * SCALE, ink=FAINT)
