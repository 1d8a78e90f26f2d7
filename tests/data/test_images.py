"""Pictures from files and from Parquet."""

import os
import struct
import sys
import warnings
import zlib
from io import BytesIO

import numpy as np
import pytest
import torch
from PIL import Image

from regard import RegardError
from regard.data.files import Told, read_folder
from regard.data.images import Frame, judge_image, read_image, read_images, read_packed, usable_images
from regard.data.text_lines import Flaw, Report

RNG = np.random.default_rng(0)
COLOUR = RNG.integers(0, 256, (5, 7, 3), dtype=np.uint8)
GREY = COLOUR[..., 0]


def png(values, mode: str | None = None, **options) -> bytes:
    image = values if isinstance(values, Image.Image) else Image.fromarray(values)
    return saved(image if mode is None else image.convert(mode), "PNG", **options)


def saved(image: Image.Image, kind: str, **options) -> bytes:
    file = BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def flaw_of(data: bytes, channels: int = 3) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        judged = judge_image(data, Frame(height=5, width=7, channels=channels))
    assert isinstance(judged, Flaw)
    return judged.kind


def test_pixels_are_what_was_saved(tmp_path):
    (tmp_path / "x.png").write_bytes(png(COLOUR))
    pixels = read_image(str(tmp_path / "x.png"), Frame(height=5, width=7))
    np.testing.assert_array_equal((pixels * 255).round().numpy(), COLOUR.transpose(2, 0, 1))
    assert pixels.dtype == torch.float32


def test_grey_and_colour_become_one_another_as_asked():
    grey = judge_image(png(COLOUR), Frame(height=5, width=7, channels=1))
    luma = COLOUR @ np.array([0.299, 0.587, 0.114])  # ITU-R 601
    assert np.abs(grey.numpy()[0] - luma).max() <= 1
    colour = judge_image(png(GREY), Frame(height=5, width=7))
    assert all((colour[channel].numpy() == GREY).all() for channel in range(3))


def test_palettes_and_two_colours_are_read_as_what_they_show():
    few = Image.fromarray(COLOUR).quantize(4)
    pixels = judge_image(png(few), Frame(height=5, width=7))
    np.testing.assert_array_equal(pixels.numpy().transpose(1, 2, 0), np.asarray(few.convert("RGB")))
    two = judge_image(png(Image.fromarray(GREY > 100)), Frame(height=5, width=7, channels=1))
    np.testing.assert_array_equal(two.numpy()[0], np.where(GREY > 100, 255, 0))


def test_jpeg_is_read_and_turned_upright():
    smooth = np.linspace(0, 255, 16 * 24).reshape(16, 24).astype(np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held a quarter turn to the left
    data = saved(Image.fromarray(smooth), "JPEG", quality=95, exif=exif)
    pixels = judge_image(data, Frame(height=24, width=16, channels=1))
    assert np.abs(pixels.numpy()[0].astype(int) - np.rot90(smooth, -1)).max() < 12


def test_an_image_is_scaled_to_cover_the_frame_and_its_middle_is_kept():
    bars = np.zeros((10, 40), np.uint8)
    bars[:, 10:30] = 200  # a square frame sees columns 15 to 25, all of one value
    assert (judge_image(png(bars), Frame(height=5, width=5, channels=1)) == 200).all()
    assert (judge_image(png(bars.T.copy()), Frame(height=7, width=7, channels=1)) == 200).all()


def test_scaling_is_that_of_torch():
    values = RNG.integers(0, 256, (23, 31), dtype=np.uint8)
    ours = judge_image(
        png(values), Frame(height=23, width=11, channels=1)
    )  # nothing to scale, ten to cut on each side
    np.testing.assert_array_equal(ours[0].numpy(), values[:, 10:21])
    square = values[:, :23].copy()
    for side in (7, 11):
        ours = judge_image(png(square), Frame(height=side, width=side, channels=1))[0]
        theirs = torch.nn.functional.interpolate(
            torch.from_numpy(square).float()[None, None], (side, side), mode="bicubic", antialias=True
        )[0, 0]
        assert (ours - theirs.clamp(0, 255)).abs().max() <= 1


def test_alpha_is_dropped_where_nothing_shines_through_and_refused_elsewhere():
    opaque = np.dstack([COLOUR, np.full((5, 7), 255, np.uint8)])
    pixels = judge_image(png(opaque), Frame(height=5, width=7))
    np.testing.assert_array_equal(pixels.numpy(), COLOUR.transpose(2, 0, 1))
    opaque[2, 3, 3] = 254
    assert flaw_of(png(opaque)) == "wrong channels"
    assert flaw_of(png(Image.fromarray(GREY), transparency=int(GREY[0, 0]))) == "wrong channels"
    grey = Image.merge("LA", [Image.fromarray(GREY), Image.new("L", (7, 5), 255)])
    kept = judge_image(png(grey), Frame(height=5, width=7, channels=1))
    np.testing.assert_array_equal(kept.numpy()[0], GREY)


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def header(width: int, height: int, *, depth: int = 8, colour: int = 2) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + chunk(
        b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    )


def test_other_channels_are_refused():
    assert flaw_of(saved(Image.fromarray(COLOUR).convert("CMYK"), "JPEG")) == "wrong channels"
    assert flaw_of(png(GREY.astype(np.uint16) * 256)) == "wrong channels"
    row = b"\0" + bytes(6 * 7)
    deep = header(7, 5, depth=16) + chunk(b"IDAT", zlib.compress(row * 5)) + chunk(b"IEND", b"")
    assert flaw_of(deep) == "wrong channels"  # Pillow would drop the lower bytes and say nothing


@pytest.mark.parametrize("size", [(10_000, 5_001), (9_500, 9_500), (60_000, 60_000), (2**31 - 1, 2**31 - 1)])
def test_bombs_are_refused_by_their_header_without_a_warning(size):
    assert flaw_of(header(*size) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")) == "too many pixels"
    if max(size) < 65_536:
        jpeg = bytearray(saved(Image.fromarray(COLOUR), "JPEG"))
        at = jpeg.index(b"\xff\xc0") + 5
        jpeg[at : at + 4] = struct.pack(">HH", *size)
        assert flaw_of(bytes(jpeg)) == "too many pixels"


def test_a_jpeg_that_says_two_sizes_is_refused():
    jpeg = saved(Image.fromarray(COLOUR), "JPEG")
    at = jpeg.index(b"\xff\xc0")
    size = jpeg[at : at + 2 + struct.unpack(">H", jpeg[at + 2 : at + 4])[0]]
    assert flaw_of(jpeg[:at] + size + jpeg[at:]) == "broken"


def test_other_files_are_no_images_whatever_their_names():
    for kind in ["GIF", "BMP", "TIFF", "WEBP"]:
        assert flaw_of(saved(Image.fromarray(COLOUR), kind)) == "not an image"
    assert flaw_of(b"%!PS-Adobe-3.0 EPSF-3.0\n") == "not an image"
    assert flaw_of(b"hello") == "not an image"
    assert flaw_of(b"") == "empty"


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_a_truncated_file_is_refused_wherever_it_ends(kind):
    whole = saved(Image.fromarray(RNG.integers(0, 256, (40, 30, 3), dtype=np.uint8)), kind)
    for length in [3, 8, 9, 20, 24, 30, len(whole) // 3, len(whole) * 2 // 3, len(whole) - 200]:
        assert flaw_of(whole[:length]) in ("broken", "not an image")


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_no_damage_gets_past_as_an_exception(kind):
    whole = saved(Image.fromarray(COLOUR), kind)
    for _ in range(400):
        damaged = bytearray(whole)
        for place in RNG.integers(2, len(whole), 3):
            damaged[place] = RNG.integers(256)
        judged = judge_image(bytes(damaged), Frame(height=5, width=7))
        assert isinstance(judged, Flaw) or judged.shape == (3, 5, 7)


def test_a_folder_is_read_but_for_what_cannot_be(tmp_path):
    for name, data in [
        ("b/1.png", png(COLOUR)), ("a/1.jpg", saved(Image.fromarray(COLOUR), "JPEG")), ("a/2.png", b""),
        ("a/3.png", b"no"), ("b/2.png", png(COLOUR)[:60]),
    ]:  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    (tmp_path / "b" / "9.png").symlink_to(tmp_path / "b" / "9.png")
    told, frame = read_folder(str(tmp_path)), Frame(height=5, width=7)
    with pytest.raises(RegardError, match=r"a/2\.png: empty"):
        read_images(told, frame)
    report = Report()
    pixels, kept = read_images(told, frame, policy="skip", report=report)
    assert [os.path.relpath(each.path, tmp_path) for each in kept] == ["a/1.jpg", "b/1.png"]
    np.testing.assert_array_equal(pixels[1].numpy(), COLOUR.transpose(2, 0, 1))
    assert report.counts == {"empty": 1, "not an image": 1, "broken": 1, "unreadable": 1}
    assert usable_images(told, frame, policy="skip") == kept
    with pytest.raises(RegardError, match=r"b/2\.png: a broken or truncated picture"):
        read_image(str(tmp_path / "b/2.png"), frame)
    with pytest.raises(RegardError, match="none of 1 pictures"):
        read_images([Told(str(tmp_path / "a/2.png"), "")], frame, policy="skip")


@pytest.mark.parametrize(
    "wrong", [{"height": 0}, {"width": -1}, {"channels": 4}, {"height": 10**5, "width": 10**5}]
)
def test_a_frame_that_is_none_is_refused(wrong, as_a_user):
    with pytest.raises(RegardError, match=next(iter(wrong))):
        Frame(**{"height": 5, "width": 5, **wrong})


def test_a_little_file_of_many_pixels_is_refused_before_it_is_unpacked() -> None:
    data = BytesIO()
    Image.new("L", (6000, 6000)).save(data, "PNG")
    flaw = judge_image(data.getvalue(), Frame(height=4, width=4))
    assert flaw.kind == "too many pixels"
    assert "6000 × 6000 pixels, made to fill memory" in flaw.what


pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

PIXELS = np.random.default_rng(0).integers(0, 256, (3, 4, 6), dtype=np.uint8)
FRAME = Frame(height=4, width=6, channels=1)


def png_bytes(values: np.ndarray) -> bytes:
    file = BytesIO()
    Image.fromarray(values).save(file, "PNG")
    return file.getvalue()


def table(path, columns: dict) -> str:
    parquet.write_table(pyarrow.table(columns), path)
    return str(path)


@pytest.mark.parametrize("wrap", [lambda data: data, lambda data: {"bytes": data, "path": None}])
def test_pictures_and_labels_of_a_table(tmp_path, wrap):
    path = table(
        tmp_path / "x.parquet", {"label": [7, 8, 9], "image": [wrap(png_bytes(each)) for each in PIXELS]}
    )
    pixels, labels = read_packed(path, FRAME)
    np.testing.assert_array_equal(pixels[:, 0].numpy(), PIXELS)
    assert labels == ["7", "8", "9"]


def test_bad_rows_are_named_by_number_and_dropped_where_the_policy_says_so(tmp_path):
    pictures = [png_bytes(PIXELS[0]), b"no", None, png_bytes(PIXELS[1]), png_bytes(PIXELS[2])]
    columns = {"picture": pictures, "what": ["a", "b", "c", None, " "]}
    path = table(tmp_path / "x.parquet", columns)
    with pytest.raises(RegardError, match=r"x\.parquet:2: neither PNG nor JPEG"):
        read_packed(path, FRAME, columns=["picture", "what"])
    report = Report()
    assert read_packed(path, FRAME, columns=[1, 2], policy="skip", report=report)[1] == ["a"]
    assert report.counts == {"not an image": 1, "no bytes": 1, "not text": 1, "empty": 1}


def test_what_is_no_table_of_pictures_is_refused(tmp_path, monkeypatch):
    (tmp_path / "x").write_text("no")
    with pytest.raises(RegardError, match="cannot be read as Parquet"):
        read_packed(str(tmp_path / "x"), FRAME)
    with pytest.raises(RegardError, match="no such file"):
        read_packed(str(tmp_path / "y"), FRAME)
    path = table(tmp_path / "z.parquet", {"image": ["text"], "label": [1]})
    with pytest.raises(RegardError, match="a str where the bytes of a picture"):
        read_packed(path, FRAME)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(RegardError, match=r"regard\[parquet\]"):
        read_packed(path, FRAME)
