"""Scenes as PNG, drawn with pillow."""

import math
from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise

from PIL import Image, ImageDraw

from regard.sight.pictures.colours import PAPER, Colour
from regard.sight.pictures.lettering import letter
from regard.sight.pictures.raster import SCALE
from regard.sight.pictures.scene import Box, Dot, Mark, Pixels, Ribbon, Scene, Stroke, Words, moved

_FINE = 3  # shapes are drawn this much larger, then reduced: smooth edges
_STEPS = 48  # straight pieces of a ribbon
_DASH, _GAP = 4.0, 3.0

Shape = Box | Ribbon | Stroke | Dot


def image(scene: Scene) -> Image.Image:
    """The whole scene as an image."""
    page = Image.new("RGB", (scene.width * SCALE, scene.height * SCALE), PAPER)
    return paint(page, scene.marks)


def paint(page: Image.Image, marks: Iterable[Mark]) -> Image.Image:
    """The page with the marks on it."""
    for _, run in groupby(marks, key=lambda mark: isinstance(mark, Shape)):
        together = list(run)
        shapes = [mark for mark in together if isinstance(mark, Shape)]
        if shapes:
            _shapes(page, shapes)
        for mark in together:
            if isinstance(mark, Words):
                at, size = (mark.x * SCALE, mark.y * SCALE), mark.size * SCALE
                letter(page, at, mark.text, size=size, ink=mark.ink, anchor=mark.anchor)
            elif isinstance(mark, Pixels):
                page.paste(_stretched(mark), (round(mark.x * SCALE), round(mark.y * SCALE)))
    return page


def _stretched(mark: Pixels) -> Image.Image:
    size = (max(1, round(mark.width * SCALE)), max(1, round(mark.height * SCALE)))
    part = Image.fromarray(mark.pixels)
    if size[0] < part.width or size[1] < part.height:
        return part.resize(size, Image.Resampling.BOX if mark.blocky else Image.Resampling.LANCZOS)
    return part.resize(size, Image.Resampling.NEAREST if mark.blocky else Image.Resampling.BICUBIC)


def _shapes(page: Image.Image, marks: Sequence[Shape]) -> None:
    """Shapes with smooth edges. What none of them touches comes back as it was, to the bit."""
    corners = [corner for mark in marks for corner in _corners(mark)]
    left, top = (max(0, math.floor(min(at) * SCALE)) for at in zip(*corners, strict=True))
    right, bottom = (math.ceil(max(at) * SCALE) for at in zip(*corners, strict=True))
    part = page.crop((left, top, min(right, page.width), min(bottom, page.height)))
    fine = part.resize((part.width * _FINE, part.height * _FINE), Image.Resampling.NEAREST)
    draw = ImageDraw.Draw(fine, "RGBA")
    for mark in (moved(mark, -left / SCALE, -top / SCALE) for mark in marks):
        if isinstance(mark, Ribbon):
            ink = _ink(mark.ink, mark.opacity)
            draw.polygon([(x * SCALE * _FINE, y * SCALE * _FINE) for x, y in _outline(mark)], fill=ink)
        elif isinstance(mark, Stroke):
            for places in dashes_of(mark):
                _line(draw, places, mark)
        elif isinstance(mark, Dot):
            for radius, inside in ((mark.radius + mark.thick, mark.edge), (mark.radius, mark.fill)):
                draw.ellipse(_bounds(mark.x - radius, mark.y - radius, 2 * radius, 2 * radius), fill=inside)
        else:
            _box(draw, mark)
    page.paste(fine.reduce(_FINE), (left, top))


def _corners(mark: Shape) -> list[tuple[float, float]]:
    """Two places between which a shape lies."""
    if isinstance(mark, Ribbon):
        (x0, y0), (x1, y1), room = mark.start, mark.end, mark.thick
        return [(min(x0, x1) - room, min(y0, y1) - room), (max(x0, x1) + room, max(y0, y1) + room)]
    if isinstance(mark, Stroke):
        return [
            (place[0] + room, place[1] + room) for place in mark.places for room in (-mark.thick, mark.thick)
        ]
    if isinstance(mark, Dot):
        room = mark.radius + mark.thick
        return [(mark.x - room, mark.y - room), (mark.x + room, mark.y + room)]
    right, bottom, room = mark.x + mark.width, mark.y + mark.height, mark.thick
    return [(mark.x - room, mark.y - room), (right + room, bottom + room)]


def _line(draw: ImageDraw.ImageDraw, places: Sequence[tuple[float, float]], mark: Stroke) -> None:
    """A line with round joints and ends."""
    unit = SCALE * _FINE
    points, width = [(x * unit, y * unit) for x, y in places], max(1, round(mark.thick * unit))
    draw.line(points, fill=mark.ink, width=width)
    half = width / 2 - 0.5
    for x, y in points if half > 2 else ():
        draw.ellipse((x - half, y - half, x + half, y + half), fill=mark.ink)


def dashes_of(mark: Stroke) -> list[list[tuple[float, float]]]:
    """The pieces of a stroke that are drawn."""
    if not mark.dashes:
        return [list(mark.places)]
    pieces: list[list[tuple[float, float]]] = [[mark.places[0]]]
    turn, left = 0, mark.dashes[0]
    for (x0, y0), (x1, y1) in pairwise(mark.places):
        whole = math.hypot(x1 - x0, y1 - y0)
        gone = 0.0
        while whole - gone > left:
            gone += left
            place = (x0 + (x1 - x0) * gone / whole, y0 + (y1 - y0) * gone / whole)
            if turn % 2 == 0:
                pieces[-1].append(place)
            else:
                pieces.append([place])
            turn += 1
            left = mark.dashes[turn % len(mark.dashes)]
        left -= whole - gone
        if turn % 2 == 0:
            pieces[-1].append((x1, y1))
    return [piece for piece in pieces if len(piece) > 1]


def _box(draw: ImageDraw.ImageDraw, mark: Box) -> None:
    if mark.fill is not None:
        bounds = _bounds(mark.x, mark.y, mark.width, mark.height)
        draw.rounded_rectangle(bounds, mark.corner * SCALE * _FINE, fill=_ink(mark.fill, mark.opacity))
    if mark.edge is None:
        return
    half = mark.thick / 2
    right, bottom = mark.x + mark.width, mark.y + mark.height
    for along, across in (((mark.x, right), mark.y), ((mark.x, right), bottom)):
        for start, end in _pieces(*along, mark):
            draw.rectangle(_bounds(start, across - half, end - start, mark.thick), fill=mark.edge)
    for along, across in (((mark.y, bottom), mark.x), ((mark.y, bottom), right)):
        for start, end in _pieces(*along, mark):
            draw.rectangle(_bounds(across - half, start, mark.thick, end - start), fill=mark.edge)


def _pieces(start: float, end: float, mark: Box) -> list[tuple[float, float]]:
    """A side whole, or in dashes of which one fills each corner."""
    half = mark.thick / 2
    if not mark.dashed:
        return [(start - half, end + half)]
    count = max(1, round((end - start) / (_DASH + _GAP)))
    step = (end - start) / count
    dash = step * _DASH / (_DASH + _GAP) / 2
    spots = [(start + index * step - dash, start + index * step + dash) for index in range(count + 1)]
    return [(max(a, start - half), min(b, end + half)) for a, b in spots]


def _outline(mark: Ribbon) -> list[tuple[float, float]]:
    """Both sides of a ribbon, as one polygon, so that a pale one is nowhere blended twice."""
    (x0, y0), (x1, y1) = mark.start, mark.end
    upper, lower = [], []
    for step in range(_STEPS + 1):
        t = step / _STEPS
        # A cubic whose handles are level and half way across.
        x = x0 + (x1 - x0) * (1.5 * t * (1 - t) + t**3)
        y = y0 + (y1 - y0) * t * t * (3 - 2 * t)
        dx, dy = (x1 - x0) * (1.5 - 3 * t + 3 * t * t), (y1 - y0) * 6 * t * (1 - t)
        size = math.hypot(dx, dy) or 1.0
        nx, ny = -dy / size * mark.thick / 2, dx / size * mark.thick / 2
        upper.append((x + nx, y + ny))
        lower.append((x - nx, y - ny))
    return upper + lower[::-1]


def _bounds(x: float, y: float, width: float, height: float) -> tuple[float, float, float, float]:
    """A rectangle as pillow wants it: with its last pixel inside."""
    unit = SCALE * _FINE
    left, top = round(x * unit), round(y * unit)
    return left, top, max(left, round((x + width) * unit) - 1), max(top, round((y + height) * unit) - 1)


def _ink(colour: Colour, opacity: float) -> tuple[int, int, int, int]:
    return (*colour, round(255 * opacity))
