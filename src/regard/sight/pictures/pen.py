"""Letters drawn with a pen: what pillow's own font lacks, so that no picture needs a font file.

That font has the letters of English. Accents are put onto them here, and a few signs are drawn whole. Points are
in ems, x to the right and y up from the baseline; a line through them is rounded at its corners.
"""

import unicodedata
from functools import lru_cache
from itertools import pairwise

from PIL import Image, ImageDraw, ImageFont

Line = tuple[tuple[float, float], ...]

_WEIGHT = 0.075  # the width of a stroke
_FINE = 4  # drawn this much larger, then reduced: smooth edges

# Above a letter, with x from its middle and y from its top.
_ABOVE: dict[str, tuple[Line, ...]] = {
    "\u0300": (((-0.12, 0.21), (0.03, 0.08)),),  # grave
    "\u0301": (((0.12, 0.21), (-0.03, 0.08)),),  # acute
    "\u0302": (((-0.13, 0.08), (0.0, 0.20), (0.13, 0.08)),),  # circumflex
    "\u0303": (((-0.17, 0.09), (-0.10, 0.17), (0.0, 0.12), (0.10, 0.08), (0.17, 0.16)),),  # tilde
    "\u0304": (((-0.14, 0.13), (0.14, 0.13)),),  # macron
    "\u0306": (((-0.14, 0.19), (-0.08, 0.09), (0.08, 0.09), (0.14, 0.19)),),  # breve
    "\u0307": (((0.0, 0.14), (0.0, 0.15)),),  # dot
    "\u0308": (((-0.12, 0.14), (-0.12, 0.15)), ((0.12, 0.14), (0.12, 0.15))),  # diaeresis
    "\u030a": (((0.0, 0.06), (0.09, 0.06), (0.09, 0.22), (-0.09, 0.22), (-0.09, 0.06), (0.0, 0.06)),),  # ring
    "\u030b": (((0.02, 0.20), (-0.10, 0.08)), ((0.20, 0.20), (0.08, 0.08))),  # double acute
    "\u030c": (((-0.13, 0.20), (0.0, 0.08), (0.13, 0.20)),),  # caron
}
# Below a letter, with x from its middle and y from the baseline.
_BELOW: dict[str, tuple[Line, ...]] = {
    "\u0323": (((0.0, -0.15), (0.0, -0.16)),),  # dot below
    "\u0326": (((0.03, -0.09), (-0.04, -0.22)),),  # comma below
    "\u0327": (((0.0, 0.0), (0.0, -0.07), (0.11, -0.08), (0.11, -0.22), (-0.09, -0.20)),),  # cedilla
    "\u0328": (((0.10, 0.0), (-0.02, -0.10), (0.03, -0.22), (0.15, -0.19)),),  # ogonek
}
# Drawn whole: how far the next letter is, and the lines.
_SIGNS: dict[str, tuple[float, tuple[Line, ...]]] = {
    "–": (0.60, (((0.08, 0.27), (0.52, 0.27)),)),
    "—": (1.00, (((0.06, 0.27), (0.94, 0.27)),)),
    "−": (0.60, (((0.09, 0.33), (0.51, 0.33)),)),
    "×": (0.60, (((0.13, 0.16), (0.47, 0.50)), ((0.13, 0.50), (0.47, 0.16)))),
    "√": (0.62, (((0.03, 0.34), (0.10, 0.38), (0.24, 0.02)), ((0.24, 0.02), (0.40, 0.76), (0.62, 0.76)))),
    "‖": (0.36, (((0.10, -0.14), (0.10, 0.76)), ((0.25, -0.14), (0.25, 0.76)))),
    "τ": (0.50, (((0.05, 0.50), (0.45, 0.50)), ((0.25, 0.50), (0.23, 0.04), (0.38, 0.04)))),
    "≤": (0.60, (((0.48, 0.56), (0.12, 0.38), (0.48, 0.20)), ((0.12, 0.06), (0.48, 0.06)))),
    "≥": (0.60, (((0.12, 0.56), (0.48, 0.38), (0.12, 0.20)), ((0.12, 0.06), (0.48, 0.06)))),
    "→": (0.90, (((0.10, 0.30), (0.78, 0.30)), ((0.58, 0.48), (0.78, 0.30), (0.58, 0.12)))),
    "∞": (
        0.95,
        (
            (
                (0.47, 0.29), (0.30, 0.46), (0.10, 0.46), (0.10, 0.12), (0.30, 0.12), (0.47, 0.29),
                (0.64, 0.46), (0.85, 0.46), (0.85, 0.12), (0.64, 0.12), (0.47, 0.29),
            ),
        ),
    ),
    "␣": (0.56, (((0.08, 0.10), (0.08, -0.06), (0.30, -0.06)), ((0.30, -0.06), (0.48, -0.06), (0.48, 0.10)))),
    "¿": (
        0.50,
        (((0.27, 0.46), (0.27, 0.47)), ((0.27, 0.30), (0.27, 0.14), (0.06, 0.08), (0.06, -0.20), (0.42, -0.22), (0.44, -0.06))),
    ),
    "¡": (0.25, (((0.12, 0.46), (0.12, 0.47)), ((0.12, 0.30), (0.12, -0.20)))),
    "ı": (0.24, (((0.12, 0.04), (0.12, 0.50)),)),
    "ß": (
        0.58,
        (
            (
                (0.10, 0.03), (0.10, 0.50), (0.10, 0.74), (0.44, 0.78), (0.48, 0.46), (0.24, 0.40),
                (0.30, 0.38), (0.56, 0.36), (0.57, -0.05), (0.28, 0.03),
            ),
        ),
    ),
}  # fmt: skip
# Two letters as one, or a letter with a stroke through it.
_JOINED: dict[str, tuple[str, float, tuple[Line, ...]]] = {
    "æ": ("ae", -0.09, ()),
    "œ": ("oe", -0.09, ()),
    "Æ": ("AE", -0.13, ()),
    "Œ": ("OE", -0.13, ()),
    "ø": ("o", 0.0, (((0.12, -0.02), (0.46, 0.57)),)),
    "Ø": ("O", 0.0, (((0.16, -0.03), (0.60, 0.73)),)),
    "ł": ("l", 0.0, (((0.0, 0.30), (0.24, 0.46)),)),
    "Ł": ("L", 0.0, (((0.0, 0.28), (0.30, 0.46)),)),
    "đ": ("d", 0.0, (((0.32, 0.62), (0.62, 0.62)),)),
    "ð": ("d", 0.0, (((0.34, 0.56), (0.60, 0.66)),)),
}


def can_write(letter: str, font: ImageFont.FreeTypeFont) -> bool:
    """Whether this letter can be made from what the font has."""
    return (
        letter in _SIGNS
        or letter in _JOINED
        or _small(letter, font) is not None
        or _parts(letter, font) is not None
    )


def write(letter: str, font: ImageFont.FreeTypeFont) -> tuple[Image.Image, float]:
    """The letter as a grey mask whose baseline is one em from its top, and how far the next one is."""
    size = font.size
    small = _small(letter, font)
    if letter in _SIGNS:
        advance, lines = _SIGNS[letter]
        return _drawn([], lines, font), advance * size
    if letter in _JOINED:
        text, kern, lines = _JOINED[letter]
        second = font.getlength(text[0]) + kern * size
        advance = second + font.getlength(text[1]) if len(text) > 1 else font.getlength(text)
        return _drawn([(text[:1], 0.0, 0.0), (text[1:], second, 0.0)], lines, font), advance
    if small is not None:
        text, rise = small
        tiny = font.font_variant(size=size * 0.64)
        return _drawn([(text, 0.0, rise)], (), tiny, size), tiny.getlength(text)
    parts = _parts(letter, font)
    if parts is None:
        raise ValueError(letter)
    base, marks = parts
    return _accented(base, marks, font), font.getlength(base)


def _accented(base: str, marks: str, font: ImageFont.FreeTypeFont) -> Image.Image:
    size = font.size
    left, top, right, _ = font.getbbox(base, anchor="ls")
    middle, height = (left + right) / 2 / size, -top / size
    lines: list[Line] = []
    if base in "ij" and any(mark in _ABOVE for mark in marks):
        height = 0.54  # the accent takes the place of the dot
    for mark in marks:
        start = height if mark in _ABOVE else 0.0
        for line in _ABOVE.get(mark) or _BELOW[mark]:
            lines.append(tuple((x + middle, y + start) for x, y in line))
        height += 0.17 if mark in _ABOVE else 0.0
    dotless = base in "ij" and height != -top / size
    return _drawn([(base, 0.0, 0.0)], tuple(lines), font, hide_above=0.6 if dotless else None)


def _drawn(
    texts: list[tuple[str, float, float]],
    lines: tuple[Line, ...],
    font: ImageFont.FreeTypeFont,
    em: float | None = None,
    hide_above: float | None = None,
) -> Image.Image:
    """Texts of the font at (x, rise) and lines of the pen, on one mask of 1.4 ems by 1.4."""
    em = em or font.size
    side = round(1.4 * em)
    mask = Image.new("L", (side * _FINE, side * _FINE))
    draw = ImageDraw.Draw(mask)
    fine = font.font_variant(size=font.size * _FINE)
    unit = em * _FINE
    for text, x, rise in texts:
        draw.text((x * _FINE, (1 - rise) * unit), text, fill=255, font=fine, anchor="ls")
    if hide_above is not None:
        draw.rectangle((0, 0, mask.width, (1 - hide_above) * unit), fill=0)
    for line in lines:
        points = [(x * unit, (1 - y) * unit) for x, y in _rounded(line)]
        half = _WEIGHT * unit / 2
        draw.line(points, fill=255, width=round(2 * half), joint="curve")
        for x, y in (points[0], points[-1]):
            draw.ellipse((x - half, y - half, x + half, y + half), fill=255)
    return mask.resize((side, side), Image.Resampling.BOX)


def _rounded(line: Line) -> Line:
    """Corners cut twice (Chaikin 1974), ends kept; a line of few points is left sharp."""
    for _ in range(2 if len(line) > 3 else 0):
        cut = [line[0]]
        for (x0, y0), (x1, y1) in pairwise(line):
            cut += [
                (0.75 * x0 + 0.25 * x1, 0.75 * y0 + 0.25 * y1),
                (0.25 * x0 + 0.75 * x1, 0.25 * y0 + 0.75 * y1),
            ]
        line = (*cut, line[-1])
    return line


def _small(letter: str, font: ImageFont.FreeTypeFont) -> tuple[str, float] | None:
    """A raised or lowered letter, such as ᵀ or ₂: the letter itself and how far it is raised."""
    kind, _, code = unicodedata.decomposition(letter).partition(" ")
    if kind not in ("<super>", "<sub>") or " " in code or not has(font, chr(int(code, 16))):
        return None
    return chr(int(code, 16)), 0.28 if kind == "<super>" else -0.12


def _parts(letter: str, font: ImageFont.FreeTypeFont) -> tuple[str, str] | None:
    base, *marks = list(unicodedata.normalize("NFD", letter))
    known = all(mark in _ABOVE or mark in _BELOW for mark in marks)
    return (base, "".join(marks)) if marks and known and has(font, base) else None


@lru_cache(maxsize=4096)
def has(font: ImageFont.FreeTypeFont, letter: str) -> bool:
    """Whether the font has this letter: what it lacks it draws as it draws the non-character U+FFFF."""
    shape, missing = font.getmask(letter), font.getmask("\uffff")
    return shape.size != missing.size or bytes(shape) != bytes(missing)
