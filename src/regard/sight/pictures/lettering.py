"""Text on pictures, in pillow's own font; the pen, a font of the system, or a numbered box for what it lacks."""

from functools import lru_cache
from itertools import groupby

from PIL import Image, ImageChops, ImageDraw, ImageFont
from rich.cells import cell_len

from regard.sight.pictures.colours import INK, Colour
from regard.sight.pictures.pen import can_write, has, write

# Names under which pillow finds a font where the usual systems keep them; the first that has a letter draws it.
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


def length(text: str, size: float) -> float:
    """How wide the text is, in pixels, at this size."""
    return sum(_run(run, size, hand)[1] for hand, run in _runs(text, size))


def letter(
    image: Image.Image,
    place: tuple[float, float],
    text: str,
    *,
    size: float,
    ink: Colour = INK,
    anchor: str = "left",
    angle: float = 0.0,
) -> None:
    """Write text whose middle line starts (or, anchored "right" or "middle", ends or has its middle) at a place.

    A turned text (angle in degrees, against the clock) starts there too, and runs on in that direction.
    """
    mask = _mask(text, size)
    if not mask.width:
        return
    shift = {"left": 0.0, "middle": 0.5, "right": 1.0}[anchor] * length(text, size)
    if not angle:
        corner = (place[0] - shift, place[1] - mask.height / 2)
    else:
        # The text starts at the middle of a square large enough to be turned around there.
        square = Image.new("L", (2 * mask.width + 2 * mask.height,) * 2)
        square.paste(mask, (square.width // 2 - round(shift), square.height // 2 - mask.height // 2))
        mask = square.rotate(angle, resample=Image.Resampling.BICUBIC)
        corner = (place[0] - mask.width / 2, place[1] - mask.height / 2)
    image.paste(ink, (round(corner[0]), round(corner[1])), mask)


@lru_cache(maxsize=1024)
def _mask(text: str, size: float) -> Image.Image:
    """The text in grey. Its small letters are centred between top and bottom; the baseline is at 1.1 em."""
    runs = [_run(run, size, hand) for hand, run in _runs(text, size)]
    mask = Image.new(
        "L", (round(sum(advance for _, advance in runs) + 0.5 * size) if runs else 0, round(1.68 * size))
    )
    x = 0.0
    for part, advance in runs:
        # Lighter, not pasted: neighbours may overlap, as an accent does.
        at = (round(x), round(0.1 * size))
        box = (*at, min(at[0] + part.width, mask.width), min(at[1] + part.height, mask.height))
        cut = part.crop((0, 0, box[2] - box[0], box[3] - box[1]))
        mask.paste(ImageChops.lighter(mask.crop(box), cut), box)
        x += advance
    return mask


def _runs(text: str, size: float) -> list[tuple[str, str]]:
    """Neighbouring letters by the same hand: font, pen, the name of a system font, or box."""
    runs = [(hand, "".join(run)) for hand, run in groupby(text, key=lambda each: _hand(each, size))]
    whole = [(hand, [run] if hand not in ("pen", "box") else list(run)) for hand, run in runs]
    return [(hand, each) for hand, parts in whole for each in parts]


@lru_cache(maxsize=4096)
def _hand(letter: str, size: float) -> str:
    font = _font(size)
    if has(font, letter):
        return "font"
    if can_write(letter, font):
        return "pen"
    for name in _SYSTEM:
        other = _system(name, size)
        if other is not None and has(other, letter):
            return name
    return "box"


@lru_cache(maxsize=4096)
def _run(text: str, size: float, hand: str) -> tuple[Image.Image, float]:
    """A run in grey, its baseline one em from its top, and how far the next one is."""
    if hand == "pen":
        return write(text, _font(size))
    if hand == "box":
        return _box(text, size)
    font = _font(size) if hand == "font" else _system(hand, size) or _font(size)
    advance = font.getlength(text)
    mask = Image.new("L", (round(advance + size * 0.2), round(1.4 * size)))
    ImageDraw.Draw(mask).text((0, size), text, fill=255, font=font, anchor="ls")
    return mask, advance


def _box(text: str, size: float) -> tuple[Image.Image, float]:
    """A letter that no font has, as a box with its number in hexadecimal: two rows of digits."""
    number = ord(text)
    code = f"{number - 0x2400:02X}" if 0x2400 <= number < 0x2420 else f"{number:04X}"
    rows = [code] if len(code) == 2 else [code[: len(code) // 2], code[len(code) // 2 :]]
    width = max(0.75, 0.26 * max(map(len, rows)) + 0.2, 0.5 * cell_len(text)) * size
    mask = Image.new("L", (round(width), round(1.4 * size)))
    draw = ImageDraw.Draw(mask)
    draw.rectangle(
        (0.04 * size, 0.22 * size, width - 0.1 * size, 1.04 * size),
        outline=150,
        width=max(1, round(size / 24)),
    )
    font = _font(size * 0.4)
    for row, digits in enumerate(rows):
        middle = 0.63 if len(rows) == 1 else 0.44 + 0.38 * row
        draw.text((width / 2 - 0.03 * size, middle * size), digits, fill=220, font=font, anchor="mm")
    return mask, width


@lru_cache(maxsize=64)
def _font(size: float) -> ImageFont.FreeTypeFont:
    font = ImageFont.load_default(size)
    if not isinstance(font, ImageFont.FreeTypeFont):  # a pillow built without FreeType has only a bitmap
        raise RuntimeError("this pillow was built without FreeType, which draws the letters of pictures")
    return font


@lru_cache(maxsize=64)
def _system(name: str, size: float) -> ImageFont.FreeTypeFont | None:
    try:
        return ImageFont.truetype(name, size)
    except OSError:
        return None
