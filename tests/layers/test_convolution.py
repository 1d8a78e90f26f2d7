"""Convolutional features against torch's functions, one picture at a time and in any company."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from regard import RegardError
from regard.layers.convolution import Convolutional, ConvolutionalFeatures, ConvolutionUnit, group_norm


def normed(x: Tensor, norm: torch.nn.GroupNorm) -> Tensor:
    """By the equation: mean and variance of each group of channels of each picture."""
    groups = x.unflatten(1, (norm.num_groups, -1))
    mean = groups.mean((2, 3, 4), keepdim=True)
    variance = groups.var((2, 3, 4), keepdim=True, unbiased=False)
    even = ((groups - mean) / (variance + 1e-5).sqrt()).flatten(1, 2)
    return even * norm.weight[:, None, None] + norm.bias[:, None, None]


@pytest.mark.parametrize(("inputs", "outputs", "stride"), [(6, 6, 1), (6, 10, 1), (6, 6, 2), (4, 6, 3)])
def test_a_unit_is_its_equation(inputs: int, outputs: int, stride: int) -> None:
    unit = ConvolutionUnit(inputs, outputs, stride=stride).double()
    for parameter in unit.parameters():
        torch.nn.init.normal_(parameter)
    x = torch.randn(3, inputs, 7, 11).double()
    y = F.conv2d(F.relu(normed(x, unit.first_norm)), unit.first.weight, stride=stride, padding=1)
    y = F.conv2d(F.relu(normed(y, unit.second_norm)), unit.second.weight, padding=1)
    plain = stride == 1 and inputs == outputs
    around = x if plain else F.conv2d(x, unit.around.weight, stride=stride)
    torch.testing.assert_close(unit(x), around + y, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("size", "strides", "grid"),
    [((7, 11), (1, 2), (4, 6)), ((8, 8), (2, 2), (2, 2)), ((5, 3), (3, 2), (1, 1))],
)
def test_tokens_are_the_places_of_the_last_maps(
    size: tuple[int, int], strides: tuple[int, ...], grid: tuple[int, int]
) -> None:
    features = ConvolutionalFeatures(2, widths=(5, 6), strides=strides, depth=2)
    layer = Convolutional(13, features).double()
    pixels = torch.rand(3, 2, *size).double()
    maps = features(pixels)
    assert tuple(maps.shape[2:]) == layer.grid(*size) == grid
    tokens = layer(pixels)
    assert tokens.shape == (3, grid[0] * grid[1], 13)
    torch.testing.assert_close(tokens[1, grid[1] - 1], layer.projection(maps[1, :, 0, grid[1] - 1]))


def test_the_company_in_a_batch_does_not_matter() -> None:
    layer = Convolutional(7, ConvolutionalFeatures(1, widths=(4, 6), strides=(1, 2))).double().train()
    pixels = torch.rand(5, 1, 6, 9).double()
    together = layer(pixels)
    for row in range(5):
        torch.testing.assert_close(layer(pixels[row : row + 1])[0], together[row], rtol=0, atol=1e-12)
    pixels[0] *= 1e6
    torch.testing.assert_close(layer(pixels)[1:], together[1:], rtol=0, atol=1e-12)


def test_later_units_are_left_out_more_often() -> None:
    features = ConvolutionalFeatures(widths=(4, 4), strides=(1, 1), depth=2, skip=0.4)
    assert [round(unit.depth.skip, 10) for unit in features.units] == [0.1, 0.2, 0.3, 0.4]


def test_groups_divide_the_channels() -> None:
    assert [group_norm(channels).num_groups for channels in (7, 12, 64)] == [1, 4, 8]


@pytest.mark.usefixtures("as_a_user")
def test_mistakes_are_named() -> None:
    with pytest.raises(RegardError, match=r"widths=\(4, 6\), strides=\(1,\)"):
        ConvolutionalFeatures(widths=(4, 6), strides=(1,))
    with pytest.raises(RegardError, match="at least 1 each"):
        ConvolutionalFeatures(widths=(4,), strides=(0,))
    with pytest.raises(RegardError, match="2 channels, and convolutions made for 3"):
        ConvolutionalFeatures()(torch.zeros(1, 2, 8, 8))
