"""Text in pictures: made fit to be shown, how wide it is in the font that is shipped, and its shape in grey.

Tokens are data: they may be endless, hold control characters, or nothing at all.

The font is DejaVu Sans 2.35 without hinting, cut to Latin, Greek, Cyrillic, Armenian, Georgian, punctuation, arrows,
mathematics, box drawing and faces (pyftsubset of fonttools). Letters that it lacks come from a font of the system, or are a
box with their code point.
"""

import math
import unicodedata
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont
from rich.cells import cell_len

UNSHOWN = "�"
_JOINERS = ("\u200c", "\u200d", "\ufe0e", "\ufe0f")  # join or restyle their neighbours, which are shown
_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_MARKS = 2  # accents kept on one letter; Vietnamese needs two


def plain(text: str, limit: int = 16) -> str:
    """The text as one visible line of at most `limit` columns: ␊ for a line break, ␣ for a space at an end, … if cut."""
    text = unicodedata.normalize("NFC", str(text)[: 8 * limit + 64])
    shown, marks = [], 0
    for letter in text:
        category = unicodedata.category(letter)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        if letter not in _JOINERS and marks <= _MARKS:
            shown.append(_visible(letter, category))
    return shorten(_marked_ends("".join(shown)), limit)


def shorten(text: str, limit: int) -> str:
    """The text, or as much of its beginning as leaves room for a … in `limit` columns."""
    if cell_len(text) <= limit:
        return text
    widths = accumulate(cell_len(letter) for letter in text)
    return "".join(letter for letter, end in zip(text, widths, strict=True) if end < limit) + "…"


def amount(weight: float) -> str:
    """A weight in few digits, for the ends of a scale."""
    digits = f"{weight:.2g}" if weight < 0.1 else f"{weight:.2f}".rstrip("0").rstrip(".")
    return "0" if weight == 0 else digits


def letters(text: str) -> list[str]:
    """The text letter by letter, accents staying with theirs."""
    found: list[str] = []
    for each in text:
        if found and unicodedata.category(each) in ("Mn", "Me"):
            found[-1] += each
        else:
            found.append(each)
    return found


def _visible(letter: str, category: str) -> str:
    number = ord(letter)
    if number < 32:
        return chr(0x2400 + number)  # the control pictures, in the order of the control characters
    if number == 127:
        return "␡"
    if category == "Zs":
        return " "
    return UNSHOWN if category in _INVISIBLE else letter


def _marked_ends(text: str) -> str:
    body = text.strip(" ")
    if not body:
        return "␣" * len(text)
    start = len(text) - len(text.lstrip(" "))
    return "␣" * start + body + "␣" * (len(text) - start - len(body))


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
