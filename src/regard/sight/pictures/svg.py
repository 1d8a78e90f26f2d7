"""Scenes as SVG, written by hand. All text is escaped: a token is data, never markup."""

import base64
import hashlib
import io
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from regard.sight.pictures.colours import HATCH, HIDDEN, PAPER, code
from regard.sight.pictures.png import BASELINE, length
from regard.sight.pictures.scene import Box, CellGrid, Circle, Label, Mark, Pixels, Ribbon, Scene, Stroke

_FONTS = (
    "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif"  # the first are as wide as the font that is measured
)
_LARGE = 3_000_000  # bytes of an image: beyond, the smallest file is not worth the wait
_MANY = 10_000  # cells: beyond, they are one image inside the file and no longer name their weights
_ANCHOR = {"left": "start", "middle": "middle", "right": "end"}


def document(scene: Scene) -> str:
    """The whole scene as the text of an SVG file."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{scene.width}" height="{scene.height}" '
            f'viewBox="0 0 {scene.width} {scene.height}" font-family="{_FONTS}" role="img">',
            f"<title>{escape(scene.title or 'attention')}</title>",
            f'<rect width="100%" height="100%" fill="{code(PAPER)}"/>',
            *map(_element, scene.ordered()),
            "</svg>",
            "",
        ]
    )


def embedded(pixels: NDArray[np.uint8]) -> str:
    """An image as a data URI, so that the file needs no other."""
    held = io.BytesIO()
    Image.fromarray(pixels).save(held, format="PNG", optimize=pixels.size < _LARGE)
    return "data:image/png;base64," + base64.b64encode(held.getvalue()).decode()


def _element(mark: Mark) -> str:
    if isinstance(mark, Label):
        return _text(mark)
    if isinstance(mark, Circle):
        return (
            f'<circle cx="{mark.x:.2f}" cy="{mark.y:.2f}" r="{mark.radius + mark.thick / 2:.2f}" '
            f'fill="{code(mark.fill)}" stroke="{code(mark.edge)}" stroke-width="{mark.thick:g}"/>'
        )
    if isinstance(mark, Ribbon):
        (x0, y0), (x1, y1) = mark.start, mark.end
        middle = (x0 + x1) / 2
        curve = f"M{x0:.2f},{y0:.2f} C{middle:.2f},{y0:.2f} {middle:.2f},{y1:.2f} {x1:.2f},{y1:.2f}"
        return (
            f'<path d="{curve}" fill="none" stroke="{code(mark.ink)}" stroke-width="{mark.thick:.2f}" '
            f'stroke-opacity="{mark.opacity:.3f}">{_said(mark.said)}</path>'
        )
    if isinstance(mark, Stroke):
        places = " ".join(f"{x:.2f},{y:.2f}" for x, y in mark.places)
        return (
            f'<polyline points="{places}" fill="none" stroke="{code(mark.ink)}" stroke-width="{mark.thick:.2f}" '
            f'stroke-linejoin="round" stroke-linecap="round"{_dashes(mark)}>{_said(mark.said)}</polyline>'
        )
    if isinstance(mark, CellGrid):
        return _cells(mark)
    place = f'x="{mark.x:.2f}" y="{mark.y:.2f}" width="{mark.width:.2f}" height="{mark.height:.2f}"'
    if isinstance(mark, Pixels):
        pixels = _enlarged(mark) if mark.blocky else mark.pixels
        return (
            f'<image {place} preserveAspectRatio="none" href="{embedded(pixels)}">{_said(mark.said)}</image>'
        )
    return f"<rect {place}{_look(mark)}>{_said(mark.said)}</rect>"


def _text(mark: Label) -> str:
    """Text as wide as it was measured, whichever font the reader has."""
    x, y = f"{mark.x:.2f}", f"{mark.y:.2f}"
    wide = (
        f' textLength="{length(mark.text, mark.size):.2f}" lengthAdjust="spacingAndGlyphs"'
        if mark.text
        else ""
    )
    turned = f' transform="rotate({-mark.angle:g} {x} {y})"' if mark.angle else ""
    return (
        f'<text x="{x}" y="{y}" font-size="{mark.size:g}" fill="{code(mark.ink)}" '
        f'text-anchor="{_ANCHOR[mark.anchor]}" dy="{BASELINE}em"{wide}{turned}>{escape(mark.text)}</text>'
    )


def _cells(mark: CellGrid) -> str:
    """A rectangle for each cell, which names its weight; many cells as one image."""
    rows, columns = mark.hidden.shape
    if rows * columns > _MANY:
        wide, high = columns * mark.side, rows * mark.side
        pixels = mark.pixels(1 if mark.side == 1 else 2)
        return f'<image x="{mark.x:.2f}" y="{mark.y:.2f}" width="{wide}" height="{high}" href="{embedded(pixels)}"/>'
    # Several pictures may share a page, so the name of the pattern is that of this grid alone.
    own = hashlib.sha256(mark.colours.tobytes() + mark.hidden.tobytes()).hexdigest()[:8]
    side, parts = mark.side - mark.gap, [_hatching(own)] if mark.hidden.any() else []
    for i, j in np.ndindex(rows, columns):
        red, green, blue = mark.colours[i, j].tolist()
        fill = f"url(#hatch-{own})" if mark.hidden[i, j] else code((red, green, blue))
        x, y = mark.x + j * mark.side, mark.y + i * mark.side
        parts.append(
            f'<rect x="{x:.2f}" y="{y:.2f}" width="{side}" height="{side}" fill="{fill}">'
            f"{_said(mark.said(i, j))}</rect>"
        )
    return "\n".join(parts)


def _hatching(own: str) -> str:
    return (
        f'<defs><pattern id="hatch-{own}" width="6" height="6" patternUnits="userSpaceOnUse">'
        f'<rect width="6" height="6" fill="{code(HIDDEN)}"/>'
        f'<path d="M-1,1 l2,-2 M0,6 l6,-6 M5,7 l2,-2" stroke="{code(HATCH)}"/></pattern></defs>'
    )


def _enlarged(mark: Pixels) -> NDArray[np.uint8]:
    """Pixels repeated until they are as many as a screen has, since not every reader keeps few of them apart."""
    height, width = mark.pixels.shape[:2]
    times = [max(1, round(2 * size / count)) for size, count in ((mark.height, height), (mark.width, width))]
    return mark.pixels.repeat(times[0], 0).repeat(times[1], 1)


def _look(mark: Box) -> str:
    look = f' fill="{code(mark.fill)}" fill-opacity="{mark.opacity:.3f}"' if mark.fill else ' fill="none"'
    if mark.corner:
        look += f' rx="{mark.corner:g}"'
    if mark.edge:
        look += f' stroke="{code(mark.edge)}" stroke-width="{mark.thick:g}"{_dashes(mark)}'
        look += f' stroke-dashoffset="{mark.dashes[0] / 2:.2f}"' if mark.dashed else ""
    return look


def _dashes(mark: Box | Stroke) -> str:
    return f' stroke-dasharray="{" ".join(f"{each:.4g}" for each in mark.dashes)}"' if mark.dashes else ""


def _said(text: str) -> str:
    return f"<title>{escape(text)}</title>" if text else ""
