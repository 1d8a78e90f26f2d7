"""Text in the font that is shipped: how wide it is, and its shape in grey.

The font is DejaVu Sans 2.35 without hinting, cut to Latin, Greek, Cyrillic, Armenian, Georgian, punctuation, arrows,
mathematics, box drawing and faces (pyftsubset of fonttools). Letters that it lacks come from a font of the system, or are a
box with their code point.
"""

import math
from functools import lru_cache
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont
from rich.cells import cell_len

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
_FINE = 4  # drawn this much larger, then reduced: no hinting is seen, and widths are exact


def length(text: str, size: float) -> float:
    """How wide the text is at this size."""
    return size * sum(map(_advance, text))


@lru_cache(maxsize=1024)
def shape(text: str, size: float, angle: float = 0.0) -> tuple[Image.Image, tuple[float, float]]:
    """The text in grey, turned by an angle in degrees against the clock, and where its middle line starts there."""
    unit, margin = size * _FINE, round(size * _FINE / 2)  # a margin, since accents may hang over
    mask = Image.new("L", (math.ceil(length(text, unit)) + 2 * margin, 4 * margin))
    draw, x = ImageDraw.Draw(mask), float(margin)
    for letter in text:
        font = _font(_face(letter), unit)
        if font is None:
            _box(draw, letter, (x, 2.0 * margin), unit)
        else:
            place = (round(x), round(2 * margin + BASELINE * unit))
            draw.text(place, letter, fill=255, font=font, anchor="ls")
        x += unit * _advance(letter)
    along, turn = margin - mask.width / 2, math.radians(angle)  # from the middle of the mask to the start
    mask = mask.rotate(angle, Image.Resampling.BILINEAR, expand=True) if angle else mask
    start = mask.width / 2 + along * math.cos(turn), mask.height / 2 - along * math.sin(turn)
    return mask.reduce(_FINE), (start[0] / _FINE, start[1] / _FINE)


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


def _box(draw: ImageDraw.ImageDraw, letter: str, place: tuple[float, float], unit: float) -> None:
    """A box with the code point in two rows of digits, for a letter that no font has; 0A for ␊."""
    (x, y), width, number = place, _advance(letter) * unit, ord(letter)
    corners = (x + 0.06 * unit, y - 0.45 * unit, x + width - 0.06 * unit, y + 0.45 * unit)
    draw.rectangle(corners, outline=170, width=max(1, round(unit / 24)))
    code = f"{number - 0x2400:02X}" if 0x2400 <= number < 0x2420 else f"{number:04X}"
    rows = [code] if len(code) == 2 else [code[: len(code) // 2], code[len(code) // 2 :]]
    for row, digits in enumerate(rows):
        middle = (x + width / 2, y + (row - (len(rows) - 1) / 2) * 0.38 * unit)
        draw.text(middle, digits, fill=220, font=_font(_SHIPPED, 0.4 * unit), anchor="mm")
