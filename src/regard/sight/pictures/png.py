"""Scenes as PNG, drawn with pillow, and how wide text is in the font that is shipped.

The font is DejaVu Sans 2.35 without hinting, cut to Latin, Greek, Cyrillic, Armenian, Georgian, punctuation, arrows,
mathematics, box drawing and faces (pyftsubset of fonttools). Letters that it lacks come from a font of the system, or are a
box with their code point.
"""

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby, pairwise
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont
from rich.cells import cell_len

from regard.sight.pictures.colours import PAPER, Colour
from regard.sight.pictures.scene import (
    Box,
    CellGrid,
    Circle,
    Label,
    Mark,
    Pixels,
    Ribbon,
    Scene,
    Stroke,
    moved,
)

SCALE = 2  # pixels to a unit: crisp on the screens of today
_FINE = 3  # shapes are drawn this much larger, then reduced: smooth edges
_STEPS = 48  # straight pieces of a ribbon
_BEFORE = {"left": 0.0, "middle": 0.5, "right": 1.0}  # the part of a text that is before its place

Shape = Box | Ribbon | Stroke | Circle
Place = tuple[float, float]
BASELINE = 0.33  # em from the middle of a line down to its baseline
_SHIPPED = str(Path(__file__).parent / "dejavu" / "DejaVuSans.ttf")
# Names under which pillow finds the fonts of usual systems; the first that has a letter draws it.
_SYSTEM = (
    "DejaVuSans.ttf",
    "NotoSans-Regular.ttf",
    "Arial Unicode.ttf",
    "segoeui.ttf",
    "NotoSansCJK-Regular.ttc",
    "PingFang.ttc",
    "msyh.ttc",
    "malgun.ttf",
    "seguiemj.ttf",
)
_EM = 2048  # units of the font in an em: at this size its widths are whole pixels
_FINE_TEXT = 4  # drawn this much larger, then reduced: no hinting is seen, and widths are exact


def image(scene: Scene) -> Image.Image:
    """The whole scene as an image."""
    return paint(Image.new("RGB", (scene.width * SCALE, scene.height * SCALE), PAPER), scene.ordered())


def paint(page: Image.Image, marks: Iterable[Mark]) -> Image.Image:
    """The page with the marks on it. Neighbouring shapes are drawn together."""
    for _, run in groupby(marks, key=lambda mark: isinstance(mark, Shape)):
        together = list(run)
        shapes = [mark for mark in together if isinstance(mark, Shape)]
        if shapes:
            _shapes(page, shapes)
        for mark in together:
            if isinstance(mark, Label):
                _write(page, mark)
            elif isinstance(mark, CellGrid):
                page.paste(Image.fromarray(mark.pixels(SCALE)), _corner(mark))
            elif isinstance(mark, Pixels):
                page.paste(_stretched(mark), _corner(mark))
    return page


def _corner(mark: Pixels | CellGrid) -> tuple[int, int]:
    return round(mark.x * SCALE), round(mark.y * SCALE)


def _write(page: Image.Image, mark: Label) -> None:
    size = mark.size * SCALE
    mask, (x, y) = shape(mark.text, size, mark.angle)
    x += _BEFORE[mark.anchor] * length(mark.text, size)
    page.paste(mark.ink, (round(mark.x * SCALE - x), round(mark.y * SCALE - y)), mask)


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
            outline = [(x * SCALE * _FINE, y * SCALE * _FINE) for x, y in _outline(mark)]
            draw.polygon(outline, fill=_ink(mark.ink, mark.opacity))
        elif isinstance(mark, Stroke):
            for places in dashes_of(mark.places, mark.dashes):
                _line(draw, places, mark)
        elif isinstance(mark, Circle):
            for radius, inside in ((mark.radius + mark.thick, mark.edge), (mark.radius, mark.fill)):
                draw.ellipse(_bounds(mark.x - radius, mark.y - radius, 2 * radius, 2 * radius), fill=inside)
        else:
            _box(draw, mark)
    page.paste(fine.reduce(_FINE), (left, top))


def _corners(mark: Shape) -> list[Place]:
    """Two or more places between which a shape is."""
    if isinstance(mark, Ribbon | Stroke):
        places: Sequence[Place] = (mark.start, mark.end) if isinstance(mark, Ribbon) else mark.places
        room = mark.thick
    elif isinstance(mark, Circle):
        places, room = [(mark.x, mark.y)], mark.radius + mark.thick
    else:
        places, room = [(mark.x, mark.y), (mark.x + mark.width, mark.y + mark.height)], mark.thick
    return [(x + by, y + by) for x, y in places for by in (-room, room)]


def _line(draw: ImageDraw.ImageDraw, places: Sequence[Place], mark: Stroke) -> None:
    """A line with round joints and ends."""
    unit = SCALE * _FINE
    points, width = [(x * unit, y * unit) for x, y in places], max(1, round(mark.thick * unit))
    draw.line(points, fill=mark.ink, width=width)
    half = width / 2 - 0.5
    for x, y in points if half > 2 else ():
        draw.ellipse((x - half, y - half, x + half, y + half), fill=mark.ink)


def dashes_of(places: Sequence[Place], dashes: Sequence[float]) -> list[list[Place]]:
    """The pieces of a line through places that are drawn."""
    if not dashes:
        return [list(places)]
    pieces: list[list[Place]] = [[places[0]]]
    turn, left = 0, dashes[0]
    for (x0, y0), (x1, y1) in pairwise(places):
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
            left = dashes[turn % len(dashes)]
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
    left, top, right, bottom, thick = mark.x, mark.y, mark.x + mark.width, mark.y + mark.height, mark.thick
    start = (left, top + sum(mark.dashes[:1]) / 2)  # half a dash before the corner, so that a dash turns it
    around = (start, (left, top), (right, top), (right, bottom), (left, bottom), start)
    for piece in dashes_of(around, mark.dashes):
        for (x0, y0), (x1, y1) in pairwise(piece):
            wide, high = (thick, 0.0) if x0 == x1 else (0.0, thick)
            x, y, width, height = min(x0, x1), min(y0, y1), abs(x1 - x0), abs(y1 - y0)
            side = _bounds(x - wide / 2, y - high / 2, width + wide, height + high)
            draw.rectangle(side, fill=mark.edge)
        for x, y in piece[1:-1]:
            draw.rectangle(_bounds(x - thick / 2, y - thick / 2, thick, thick), fill=mark.edge)


def _outline(mark: Ribbon) -> list[Place]:
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


def length(text: str, size: float) -> float:
    """How wide the text is at this size."""
    return size * sum(map(_advance, text))


@lru_cache(maxsize=1024)
def shape(text: str, size: float, angle: float = 0.0) -> tuple[Image.Image, tuple[float, float]]:
    """The text in grey, turned by an angle in degrees against the clock, and where its middle line starts there."""
    unit, margin = size * _FINE_TEXT, round(size * _FINE_TEXT / 2)  # a margin, since accents may hang over
    mask = Image.new("L", (math.ceil(length(text, unit)) + 2 * margin, 4 * margin))
    draw, x = ImageDraw.Draw(mask), float(margin)
    for letter in text:
        font = _font(_face(letter), unit)
        if font is None:
            _code_box(draw, letter, (x, 2.0 * margin), unit)
        else:
            place = (round(x), round(2 * margin + BASELINE * unit))
            draw.text(place, letter, fill=255, font=font, anchor="ls")
        x += unit * _advance(letter)
    along, turn = margin - mask.width / 2, math.radians(angle)  # from the middle of the mask to the start
    mask = mask.rotate(angle, Image.Resampling.BILINEAR, expand=True) if angle else mask
    start = mask.width / 2 + along * math.cos(turn), mask.height / 2 - along * math.sin(turn)
    return mask.reduce(_FINE_TEXT), (start[0] / _FINE_TEXT, start[1] / _FINE_TEXT)


@lru_cache(maxsize=4096)
def _advance(letter: str) -> float:
    """The width of a letter in em."""
    font = _font(_face(letter), _EM)
    if font is None:
        return 1.0 if cell_len(letter) > 1 or ord(letter) > 0xFFFF else 0.75
    return font.getlength(letter) / _EM


@lru_cache(maxsize=4096)
def _face(letter: str) -> str:
    """The font that has a letter; "" if none has it."""
    return next((name for name in (_SHIPPED, *_SYSTEM) if has(name, letter)), "")


def has(name: str, letter: str) -> bool:
    """Whether a font has a letter: what it lacks it draws as it draws the non-character U+FFFF."""
    font = _font(name, 32)
    if font is None:
        return False
    found, missing = font.getmask(letter), font.getmask("\uffff")
    return found.size != missing.size or bytes(found) != bytes(missing)


@lru_cache(maxsize=256)
def _font(name: str, size: float) -> ImageFont.FreeTypeFont | None:
    if not name:
        return None
    try:  # the basic layout, since the other one depends on the libraries of the machine
        return ImageFont.truetype(name, size, layout_engine=ImageFont.Layout.BASIC)
    except OSError:
        if name == _SHIPPED:
            raise
        return None


def _code_box(draw: ImageDraw.ImageDraw, letter: str, place: tuple[float, float], unit: float) -> None:
    """A box with the code point in two rows of digits, for a letter that no font has; 0A for ␊."""
    (x, y), width, number = place, _advance(letter) * unit, ord(letter)
    corners = (x + 0.06 * unit, y - 0.45 * unit, x + width - 0.06 * unit, y + 0.45 * unit)
    draw.rectangle(corners, outline=170, width=max(1, round(unit / 24)))
    code = f"{number - 0x2400:02X}" if 0x2400 <= number < 0x2420 else f"{number:04X}"
    rows = [code] if len(code) == 2 else [code[: len(code) // 2], code[len(code) // 2 :]]
    for row, digits in enumerate(rows):
        middle = (x + width / 2, y + (row - (len(rows) - 1) / 2) * 0.38 * unit)
        draw.text(middle, digits, fill=220, font=_font(_SHIPPED, 0.4 * unit), anchor="mm")
