"""Pictures: PNG and JPEG, as numbers from 0 to 1 at the size a model wants.

The format is recognised by the first bytes, not by the name. What is done with the contents:

- grey, black and white, colour and palette pictures become grey (ITU-R 601 luma) or RGB, as asked
- a JPEG with an orientation tag is turned upright
- an alpha channel is dropped where nothing is transparent, and refused otherwise: the background is unknown
- 16 bits a channel and CMYK are refused: there are several ways to make them 8-bit RGB
- more than 50 megapixels are refused by the header alone, before anything is unpacked

A picture of another size is scaled, its proportions kept, until it just covers the size asked for, and what
is left over is cropped equally at both sides. Pictures may also come as PNG or JPEG bytes in a column of a Parquet file.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, UInt8
from PIL import Image, ImageOps
from torch import Tensor

from regard.data.file_access import grows_too_much
from regard.data.files import Told, only_sound, read_each, read_one
from regard.data.media_values import as_pixels
from regard.data.records import Column, Wanted
from regard.data.structured import rows_of_parquet
from regard.data.text_lines import Flaw, Policy, Report, dealing
from regard.errors import RegardError

MAX_PIXELS = 50_000_000

_PNG, _JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"
_PLAIN = ("1", "L", "P", "RGB")
_REFUSED = {
    "CMYK": "CMYK, which is for printing: convert it to RGB",
    "I": "16 bits a channel: convert it to 8",
    "I;16": "16 bits a channel: convert it to 8",
    "I;16B": "16 bits a channel: convert it to 8",
}


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The size pictures are brought to."""

    height: int
    width: int
    channels: Literal[1, 3] = 3  # grey or RGB

    def __post_init__(self) -> None:
        if self.height < 1 or self.width < 1 or self.height * self.width > MAX_PIXELS:
            raise RegardError(
                f"height={self.height}, width={self.width}: give numbers from 1, together at most {MAX_PIXELS}"
            )
        if self.channels not in (1, 3):
            raise RegardError(f"channels={self.channels}: give 1 for grey or 3 for RGB")


def read_image(path: str, frame: Frame) -> Float[Tensor, "channels height width"]:
    """One picture. What cannot be used is refused with the file named."""
    return as_pixels(read_one(path, partial(judge_image, frame=frame)))


def read_images(
    told: Sequence[Told], frame: Frame, *, policy: Policy = "error", report: Report | None = None
) -> tuple[UInt8[Tensor, "n channels height width"], list[Told]]:
    """All pictures at once, a byte a number, and the files they came from: those that can be used."""
    judge = partial(judge_image, frame=frame)
    pairs = [*read_each(told, judge, policy=policy, report=report)]
    if not pairs:
        raise RegardError(f"none of {len(told)} pictures can be used{report.reasons if report else ''}")
    return torch.stack([pixels for _, pixels in pairs]), [each for each, _ in pairs]


def usable_images(
    told: Sequence[Told], frame: Frame, *, policy: Policy = "error", report: Report | None = None
) -> list[Told]:
    """The pictures that can be used, each read once to see: for sets too large for memory."""
    return only_sound(told, partial(judge_image, frame=frame), policy=policy, report=report)


def judge_image(data: bytes, frame: Frame) -> UInt8[Tensor, "channels height width"] | Flaw:
    """The picture in these bytes, or what is wrong with it."""
    if not data:
        return Flaw("empty", "empty")
    try:
        size = _announced(data)
        if isinstance(size, Flaw):
            return size
        if size[0] * size[1] > MAX_PIXELS:
            what = f"{size[0]} × {size[1]} pixels, more than {MAX_PIXELS // 1_000_000} million"
            return Flaw("too many pixels", what)
        if grows_too_much(len(data), 3 * size[0] * size[1]):
            what = (
                f"{len(data):,} bytes for {size[0]} × {size[1]} pixels, made to fill memory: save it smaller"
            )
            return Flaw("too many pixels", what)
        with Image.open(BytesIO(data), formats=["PNG" if data.startswith(_PNG) else "JPEG"]) as image:
            image.load()
            return _framed(ImageOps.exif_transpose(image), frame)
    except Exception as error:  # a file made to harm can have the decoder raise anything
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        return Flaw("broken", f"a broken or truncated picture ({reason})")


class PictureFacts(NamedTuple):
    """What a picture is, before it is brought to a size."""

    height: int
    width: int
    grey: bool


def picture_facts(path: str) -> PictureFacts | None:
    """Of a file; None if it cannot be used."""
    data = read_one(path, lambda found: found)
    if isinstance(judge_image(data, Frame(height=1, width=1)), Flaw):
        return None
    with Image.open(BytesIO(data)) as image:
        return PictureFacts(image.height, image.width, image.mode in ("1", "L", "LA"))


def _framed(image: Image.Image, frame: Frame) -> UInt8[Tensor, "channels height width"] | Flaw:
    if image.mode in _REFUSED:
        return Flaw("wrong channels", _REFUSED[image.mode])
    if "A" in image.getbands() or "transparency" in image.info:
        full = image.convert("RGBA")
        if full.getchannel("A").getextrema() != (255, 255):
            return Flaw("wrong channels", "partly transparent: lay it over a background")
        image = full.convert("L" if image.mode == "LA" else "RGB")
    elif image.mode not in _PLAIN:
        return Flaw("wrong channels", f"channels {image.mode}: convert it to grey or RGB")
    image = image.convert("RGB") if image.mode == "P" else image
    image = image.convert("L" if frame.channels == 1 else "RGB")
    if image.size != (frame.width, frame.height):
        image = image.resize(
            (frame.width, frame.height), Image.Resampling.BICUBIC, box=_middle(image.size, frame)
        )
    pixels = np.array(image, np.uint8).reshape(frame.height, frame.width, frame.channels)
    return torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)))


def _middle(size: tuple[int, int], frame: Frame) -> tuple[float, float, float, float]:
    """The largest part of a picture, in its middle, that has the proportions of the frame."""
    width, height = size
    scale = min(width / frame.width, height / frame.height)
    left, top = (width - scale * frame.width) / 2, (height - scale * frame.height) / 2
    left, top = max(left, 0.0), max(top, 0.0)
    return left, top, min(width - left, width), min(height - top, height)


def _announced(data: bytes) -> tuple[int, int] | Flaw:
    """Width and height as the header has them. Pillow's own limit is one for the whole process, which is not ours."""
    if data.startswith(_PNG):
        width, height, depth = struct.unpack(">IIB", data[16:25])
        return (
            Flaw("wrong channels", "16 bits a channel: convert it to 8") if depth == 16 else (width, height)
        )
    if data.startswith(_JPEG):
        return _announced_by_jpeg(data)
    return Flaw("not an image", "neither PNG nor JPEG, by its first bytes")


def _announced_by_jpeg(data: bytes) -> tuple[int, int] | Flaw:
    """Walk along the segments to the first that says a size (ITU T.81, B.2.2); a second one is ignored."""
    found, place = (0, 0), 2
    while place + 4 <= len(data):
        if data[place] != 0xFF:
            return Flaw("broken", f"a broken or truncated picture (no segment at byte {place})")
        marker = data[place + 1]
        if marker == 0xFF:  # filling
            place += 1
            continue
        if marker == 0xDA or marker == 0xD9:  # the picture itself, or the end
            break
        length = struct.unpack(">H", data[place + 2 : place + 4])[0]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[place + 5 : place + 9])
            if found != (0, 0):
                return Flaw("broken", "a broken picture (it says its size twice)")
            found = (width, height)
        place += 2 + length
    return found if found != (0, 0) else Flaw("broken", "a broken or truncated picture (it says no size)")


def read_packed(
    path: str,
    frame: Frame,
    *,
    usual: tuple[str, str] = ("image", "label"),
    columns: Sequence[Column] | None = None,
    policy: Policy = "error",
    report: Report | None = None,
) -> tuple[UInt8[Tensor, "n channels height width"], list[str]]:
    """The pictures of a file that can be used, and the label or text of each (columns of the usual names, or those given).

    The first column holds bytes, or structures with bytes in them, as sets of pictures are commonly shared.
    """
    dealt = dealing("row", policy, report)
    pixels, texts = [], []
    wanted = Wanted(usual=usual, columns=columns)
    for number, (names, (value, told)) in enumerate(rows_of_parquet(path, wanted, together=64), start=1):
        dealt.report.layouts[path] = f"columns {' and '.join(map(repr, names))}"
        data, text = _data(value, told), str(told)
        picture = data if isinstance(data, Flaw) else judge_image(data, frame)
        if isinstance(picture, Flaw):
            dealt.drop(path, number, picture)
        else:
            pixels.append(picture)
            texts.append(text)
    if not pixels:
        raise RegardError(f"{path}: no picture in it can be used{dealt.report.reasons}")
    return torch.stack(pixels), texts


def _data(value: Any, told: Any) -> bytes | Flaw:
    if isinstance(value, dict):
        value = value.get("bytes")
    if not isinstance(value, bytes):
        return Flaw("no bytes", f"a {type(value).__name__} where the bytes of a picture are wanted")
    if not isinstance(told, str | int | float):
        return Flaw("not text", f"a {type(told).__name__} where a label or a text is wanted")
    if not str(told).strip():
        return Flaw("empty", "the label or the text is empty")
    return value
