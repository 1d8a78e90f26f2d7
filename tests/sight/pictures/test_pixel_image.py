"""An image by itself: its pixels are drawn, at the width asked for."""

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from regard import RegardError
from regard.sight.pictures.pixel_image import pixel_image
from regard.sight.pictures.scene import Pixels

IMAGE = np.zeros((4, 8, 3), np.uint8)
IMAGE[:, 4:] = (255, 0, 0)


def test_the_pixels_are_drawn_at_their_width_and_in_proportion(tmp_path):
    drawn = pixel_image(IMAGE, width=80, title="half red")
    (mark,) = (mark for mark in drawn.scene().marks if isinstance(mark, Pixels))
    assert (mark.width, mark.height) == (80, 40)
    np.testing.assert_array_equal(mark.pixels, IMAGE)
    drawn.png(tmp_path / "it.png")
    with Image.open(tmp_path / "it.png") as png:
        at = 2 * int(mark.x + 60), 2 * int(mark.y + 20)
        assert png.convert("RGB").getpixel(at) == (255, 0, 0)


def test_a_terminal_without_colour_shows_dark_as_dense():
    console = Console(width=40, record=True, color_system=None)
    console.print(pixel_image(IMAGE, title="half red", note="the right").terminal())
    lines = console.export_text().splitlines()
    assert lines[0] == "half red · the right"
    assert lines[1][0] == "█" != lines[1][31]


def test_a_width_that_is_not_positive_is_refused():
    with pytest.raises(RegardError, match="width=0"):
        pixel_image(IMAGE, width=0)
