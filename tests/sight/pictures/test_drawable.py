import numpy as np
import pytest
import torch
from PIL import Image

from regard import RegardError
from regard.sight.pictures.drawable import photo, spectrogram

RED = np.full((80, 120, 3), (200, 40, 40), dtype=np.uint8)


@pytest.mark.parametrize(
    "given",
    [
        RED,
        RED / 255.0,
        torch.tensor(RED).permute(2, 0, 1),
        torch.tensor(RED).permute(2, 0, 1) / 255,
        np.dstack([RED, RED[..., :1]]),
        Image.fromarray(RED),
        Image.fromarray(RED).convert("RGBA"),
    ],
)
def test_an_image_may_be_held_in_anything(given):
    assert (photo(given) == RED).all()


def test_an_image_may_be_a_file(tmp_path):
    Image.fromarray(RED).save(tmp_path / "x.png")
    assert (photo(tmp_path / "x.png") == RED).all()
    (tmp_path / "y.png").write_text("not an image")
    for wrong in ("y.png", "z.png"):
        with pytest.raises(RegardError, match=rf"{wrong} cannot be read"):
            photo(str(tmp_path / wrong))


def test_a_spectrogram_has_its_lowest_band_at_the_bottom_and_frames_along_x():
    bands = np.array([[-80.0, -20.0, -20.0, -20.0], [-80.0, -80.0, -80.0, -50.0]])
    assert spectrogram(bands)[..., 0].tolist() == [[255, 255, 255, 128], [255, 0, 0, 0]]
    assert spectrogram(torch.zeros(2, 3)).shape == (2, 3, 3)


@pytest.mark.parametrize("wrong", [np.ones(3), np.full((2, 2), np.inf), np.ones((0, 3))])
def test_what_is_no_spectrogram_is_refused(wrong):
    with pytest.raises(RegardError, match="spectrogram"):
        spectrogram(wrong)
