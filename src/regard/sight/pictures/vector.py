"""Heat maps as SVG, written by hand. All text is escaped: a token is data, never markup."""

import hashlib
from collections.abc import Iterable
from os import PathLike
from xml.sax.saxutils import escape

from regard.data.atomic import write_atomically
from regard.sight.pictures.colours import FAINT, HATCH, HIDDEN, INK, PAPER, Colour, code, colour
from regard.sight.pictures.heatmap import Heatmap
from regard.sight.pictures.layout import MARGIN, NOTE, TITLE, Layout, amount, place
from regard.sight.pictures.markup import embedded
from regard.sight.pictures.raster import SCALE, cells, shades

_STOPS = 12
_MANY = 10_000  # cells: beyond, they are one image inside the file and no longer name their weights


def write(picture: Heatmap, layout: Layout | None = None, over: Iterable[str] = ()) -> str:
    """The whole picture as the text of an SVG file, with elements over the cells."""
    layout = layout or place(picture)
    # Several pictures may share a page, so the names inside each are its own.
    own = hashlib.sha256(picture.weights.tobytes() + picture.title.encode()).hexdigest()[:8]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{layout.width:g}" height="{layout.height:g}" '
        f'viewBox="0 0 {layout.width:g} {layout.height:g}" font-family="Helvetica, Arial, sans-serif" role="img">',
        f"<title>{escape(picture.title or 'attention')}</title>",
        f'<defs><pattern id="hatch-{own}" width="6" height="6" patternUnits="userSpaceOnUse">'
        f'<rect width="6" height="6" fill="{code(HIDDEN)}"/>'
        f'<path d="M-1,1 l2,-2 M0,6 l6,-6 M5,7 l2,-2" stroke="{code(HATCH)}"/></pattern>'
        f'<linearGradient id="ramp-{own}" x1="0" y1="0" x2="0" y2="1">{_stops()}</linearGradient></defs>',
        f'<rect width="100%" height="100%" fill="{code(PAPER)}"/>',
        *_head(picture),
        *_labels(picture, layout),
    ]
    parts += _image(picture, layout) if picture.weights.size > _MANY else _cells(picture, layout, own)
    return "\n".join([*parts, *over, *_scale(picture, layout, own), "</svg>", ""])


def save(text: str, path: str | PathLike[str]) -> None:
    """Write the text of an SVG file, and say plainly when that cannot be done."""
    write_atomically(path, text)


def _text(x: float, y: float, text: str, size: float, ink: Colour = INK, more: str = "") -> str:
    return (
        f'<text x="{x:.2f}" y="{y:.2f}" font-size="{size:g}" fill="{code(ink)}" dy="0.35em"{more}>'
        f"{escape(text)}</text>"
    )


def _head(picture: Heatmap) -> list[str]:
    y, parts = MARGIN, []
    if picture.title:
        parts.append(_text(MARGIN, y + TITLE / 2, picture.title, TITLE))
        y += TITLE * 1.55
    if picture.note:
        parts.append(_text(MARGIN, y + NOTE / 2, picture.note, NOTE, FAINT))
    return parts


def _cells(picture: Heatmap, layout: Layout, own: str) -> list[str]:
    """A rectangle for each cell, which names its weight."""
    parts, gap = [], 1 if layout.cell >= 6 else 0
    colours = shades(picture)
    for i, query in enumerate(picture.queries):
        for j, key in enumerate(picture.keys):
            x, y = layout.corner(i, j)
            seen = bool(picture.allowed[i, j])
            fill = code(tuple(colours[i, j].tolist())) if seen else f"url(#hatch-{own})"
            said = f"{picture.weights[i, j]:.3g}" if seen else "may not look"
            parts.append(
                f'<rect x="{x:.2f}" y="{y:.2f}" width="{layout.cell - gap}" height="{layout.cell - gap}" fill="{fill}">'
                f"<title>{escape(f'{query} → {key}: {said}')}</title></rect>"
            )
    return parts


def _image(picture: Heatmap, layout: Layout) -> list[str]:
    """All cells as one image; where they are as small as a unit, of one pixel each."""
    rows, columns = picture.weights.shape
    pixels = cells(picture, layout)
    pixels = pixels[::SCALE, ::SCALE] if layout.cell == 1 else pixels
    return [
        f'<image x="{layout.left:.2f}" y="{layout.top:.2f}" width="{columns * layout.cell}" '
        f'height="{rows * layout.cell}" href="{embedded(pixels)}"/>'
    ]


def _labels(picture: Heatmap, layout: Layout) -> list[str]:
    parts = []
    for index in range(0, len(picture.queries), layout.step):
        x, y = layout.corner(index, 0)
        spot = (x - 7, y + layout.cell / 2)
        parts.append(_text(*spot, picture.queries[index], layout.text, more=' text-anchor="end"'))
    for index in range(0, len(picture.keys), layout.step):
        x, y = layout.corner(0, index)
        spot = (x + layout.cell / 2, y - 7)
        turned = f' transform="rotate({-layout.angle:g} {spot[0]:.2f} {spot[1]:.2f})"'
        ink = FAINT if index >= len(picture.keys) - picture.aside else INK
        parts.append(_text(*spot, picture.keys[index], layout.text, ink, more=turned))
    return parts


def _scale(picture: Heatmap, layout: Layout, own: str) -> list[str]:
    left, top, width, height = layout.bar
    size = 0.85 * layout.text
    return [
        f'<rect x="{left:.2f}" y="{top:.2f}" width="{width:g}" height="{height:g}" fill="url(#ramp-{own})" '
        f'stroke="{code(HATCH)}" stroke-width="0.5"/>',
        _text(left + width + 5, top + 5, amount(picture.top), size, FAINT),
        _text(left + width + 5, top + height - 5, "0", size, FAINT),
    ]


def _stops() -> str:
    """The ramp, at as many points as it is defined by."""
    return "".join(
        f'<stop offset="{step / _STOPS:.4f}" stop-color="{code(colour(1 - step / _STOPS))}"/>'
        for step in range(_STOPS + 1)
    )
