"""Patches against a strided convolution, and against the patch cut out by hand."""

import pytest
import torch
from torch.nn import functional as F

from regard import RegardError
from regard.layers.patches import Patches


@pytest.mark.parametrize(("patch", "size"), [((3, 3), (9, 15)), ((2, 5), (6, 35)), ((7, 1), (7, 3))])
def test_it_is_a_strided_convolution(patch: tuple[int, int], size: tuple[int, int]) -> None:
    layer = Patches(11, channels=2, patch=patch).double()
    torch.nn.init.normal_(layer.projection.bias)
    pixels = torch.rand(5, 2, *size).double()
    kernel = layer.projection.weight.view(11, 2, *patch)
    expected = F.conv2d(pixels, kernel, layer.projection.bias, stride=patch).flatten(2).mT
    torch.testing.assert_close(layer(pixels), expected, rtol=0, atol=1e-12)
    assert layer.grid(*size) == (size[0] // patch[0], size[1] // patch[1])


def test_a_token_is_a_map_of_its_patch_alone() -> None:
    layer = Patches(5, channels=3, patch=(2, 4))
    pixels = torch.rand(1, 3, 6, 20)
    row, column = 2, 3
    own = pixels[0, :, 2 * row : 2 * row + 2, 4 * column : 4 * column + 4].flatten()
    torch.testing.assert_close(layer(pixels)[0, row * 5 + column], layer.projection(own))


def test_the_usual_picture_has_196_tokens() -> None:
    with torch.device("meta"):
        assert Patches(768)(torch.zeros(1, 3, 224, 224)).shape == (1, 196, 768)


@pytest.mark.usefixtures("as_a_user")
def test_mistakes_are_named() -> None:
    layer = Patches(5, channels=1, patch=(4, 3))
    with pytest.raises(RegardError, match="8 × 10 does not divide into patches of 4 × 3"):
        layer(torch.zeros(1, 1, 8, 10))
    with pytest.raises(RegardError, match="7 × 9 does not divide"):
        layer(torch.zeros(1, 1, 7, 9))
    with pytest.raises(RegardError, match="3 channels, and patches made for 1"):
        layer(torch.zeros(1, 3, 8, 9))
    with pytest.raises(RegardError, match=r"patch=\(0, 2\)"):
        Patches(5, patch=(0, 2))
