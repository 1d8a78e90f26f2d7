"""Scenes as SVG, written by hand. All text is escaped: a token is data, never markup."""

import base64
import io
from collections.abc import Iterable
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from regard.sight.pictures.colours import PAPER, code
from regard.sight.pictures.scene import Box, Dot, Mark, Pixels, Ribbon, Scene, Stroke, Words

_LARGE = 3_000_000  # bytes of an image: beyond, the smallest file is not worth the wait
_ANCHOR = {"left": "start", "middle": "middle", "right": "end"}


def document(scene: Scene) -> str:
    """The whole scene as the text of an SVG file."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{scene.width}" height="{scene.height}" '
            f'viewBox="0 0 {scene.width} {scene.height}" font-family="Helvetica, Arial, sans-serif" role="img">',
            f"<title>{escape(scene.title or 'attention')}</title>",
            f'<rect width="100%" height="100%" fill="{code(PAPER)}"/>',
            *elements(scene.marks),
            "</svg>",
            "",
        ]
    )


def inline(svg: str) -> str:
    """An SVG file as a part of a page of HTML, scrolled where it is wider than the page."""
    return f'<div style="overflow-x:auto;max-width:100%">{svg}</div>'


def elements(marks: Iterable[Mark]) -> list[str]:
    """Each mark as an element."""
    return [_element(mark) for mark in marks]


def embedded(pixels: NDArray[np.uint8]) -> str:
    """An image as the address of itself, so that the file needs no other."""
    held = io.BytesIO()
    Image.fromarray(pixels).save(held, format="PNG", optimize=pixels.size < _LARGE)
    return "data:image/png;base64," + base64.b64encode(held.getvalue()).decode()


def _element(mark: Mark) -> str:
    if isinstance(mark, Words):
        return (
            f'<text x="{mark.x:.2f}" y="{mark.y:.2f}" font-size="{mark.size:g}" fill="{code(mark.ink)}" '
            f'text-anchor="{_ANCHOR[mark.anchor]}" dy="0.35em">{escape(mark.text)}</text>'
        )
    if isinstance(mark, Dot):
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
        dashes = f' stroke-dasharray="{" ".join(f"{each:g}" for each in mark.dashes)}"' if mark.dashes else ""
        return (
            f'<polyline points="{places}" fill="none" stroke="{code(mark.ink)}" stroke-width="{mark.thick:.2f}" '
            f'stroke-linejoin="round" stroke-linecap="round"{dashes}>{_said(mark.said)}</polyline>'
        )
    place = f'x="{mark.x:.2f}" y="{mark.y:.2f}" width="{mark.width:.2f}" height="{mark.height:.2f}"'
    if isinstance(mark, Pixels):
        pixels = _enlarged(mark) if mark.blocky else mark.pixels
        return (
            f'<image {place} preserveAspectRatio="none" href="{embedded(pixels)}">{_said(mark.said)}</image>'
        )
    return f"<rect {place}{_look(mark)}>{_said(mark.said)}</rect>"


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
        look += f' stroke="{code(mark.edge)}" stroke-width="{mark.thick:g}"'
        look += ' stroke-dasharray="4 3"' if mark.dashed else ""
    return look


def _said(text: str) -> str:
    return f"<title>{escape(text)}</title>" if text else ""
