"""Pictures as sequences: patches against torch's own, and a Vision Transformer that learns."""

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard import RegardError
from regard.data.digits import digit_split, digits
from regard.figures.landscape import landscape
from regard.figures.patches_figure import cut_up
from regard.layers import Patches

KEYS = [
    "as they are",
    "without those looked at least",
    "without some at random",
    "without those with most ink",
    "without those looked at most",
]


@pytest.fixture(scope="module")
def found():
    return regard.figures.patches(steps=2, shown="3 3,8")


def test_a_picture_of_224_at_16_is_196_patches_of_768(found):
    assert found.numbers["patches"] == [196, 768]
    assert found.numbers["parameters of the projection to 768"] == 768 * 768 + 768
    assert "14 × 14 = 196 patches of 16·16·3 = 768" in found.see[0]


def test_patches_are_those_that_torch_unfolds_and_that_the_layer_projects():
    pixels = np.random.default_rng(0).integers(256, size=(6, 9, 3), dtype=np.uint8)
    cut = cut_up(pixels, 3)
    picture = torch.from_numpy(pixels).permute(2, 0, 1)[None].double()
    unfolded = torch.nn.functional.unfold(picture, kernel_size=3, stride=3)[0].T
    np.testing.assert_array_equal(cut, unfolded.numpy())
    layer = Patches(5, patch=(3, 3)).double()
    torch.testing.assert_close(layer(picture)[0], layer.projection(torch.from_numpy(cut).double()))


def test_the_weights_of_the_class_token_are_whole_and_of_the_digits_asked_for(found):
    shown = found.numbers["digits"]
    assert [each["digit"] for each in shown] == [3, 3, 8]
    for each in shown:
        assert np.shape(each["weights"]) == (4, 17)
        np.testing.assert_allclose(np.sum(each["weights"], 1), 1, atol=1e-4)
        assert 0.1 <= each["probability"] <= 1


def test_ink_is_counted_on_the_digits_that_no_training_sees(found):
    pixels, _ = digits()
    held_out = pixels[list(digit_split().test), 0].numpy()
    corners = [
        [digit[r : r + 2, s : s + 2] for r in range(0, 8, 2) for s in range(0, 8, 2)] for digit in held_out
    ]
    share = np.mean(np.mean(corners, axis=(2, 3)) >= 0.25)
    assert found.numbers["share of patches with ink"] == pytest.approx(share, abs=1e-6)
    assert found.numbers["held-out digits"] == len(held_out) == 359
    assert list(found.numbers["share right"]) == KEYS
    assert all(0 <= share <= 1 for share in found.numbers["share right"].values())


def test_the_same_seed_gives_the_same_numbers(found):
    assert regard.figures.patches(steps=2, shown="338").numbers == found.numbers


@pytest.mark.slow
def test_it_learns_and_misses_what_it_looks_at():
    right = regard.figures.patches(steps=150).numbers["share right"]
    assert right["as they are"] > 0.85
    assert (
        right["without those looked at most"] < right["without those looked at least"] < right["as they are"]
    )


def test_a_picture_of_ones_own_is_cut_in_the_middle(tmp_path):
    wide = np.zeros((224, 448, 3), np.uint8)
    wide[:, 112:336] = np.asarray(landscape(224))
    Image.fromarray(wide).save(tmp_path / "wide.png")
    own = regard.figures.patches(image=str(tmp_path / "wide.png"), steps=1, shown="1", patch=56)
    assert own.numbers["patches"] == [16, 56 * 56 * 3]
    np.testing.assert_array_equal(own.picture.parts[0].rows[0][0].image, np.asarray(landscape(224)))


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"seed": -1}, "--seed -1"),
        ({"steps": 0}, "--steps 0"),
        ({"patch": 15}, "15 × 15"),
        ({"patch": 0}, "at least 1"),
        ({"shown": ""}, "--shown ''"),
        ({"shown": "0x7"}, "--shown '0x7'"),
        ({"shown": "0123456"}, "--shown '0123456'"),
        ({"image": "nowhere.png"}, "nowhere.png"),
    ],
)
def test_settings_that_make_no_sense_are_refused_before_training(wrong, named):
    lines = []
    with pytest.raises(RegardError, match=named):
        regard.figures.patches(**wrong, progress=lines.append)
    assert not lines
