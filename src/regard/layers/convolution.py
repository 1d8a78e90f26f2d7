"""Convolutional features: the other kind of token a picture can become, by a small residual network."""

import math

from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.multihead import glorot
from regard.errors import RegardError
from regard.layers.blocks import StochasticDepth
from regard.layers.patches import Size


class ConvolutionUnit(nn.Module):
    """x + f(x), f = conv ∘ relu ∘ norm, twice (He 2016, full pre-activation). A stride makes the picture smaller.

    Norms are over groups of the channels of one picture (Wu 2018): who else is in the batch does not matter.
    """

    def __init__(self, inputs: int, outputs: int, *, stride: int = 1, skip: float = 0.0) -> None:
        super().__init__()
        self.first_norm, self.second_norm = group_norm(inputs), group_norm(outputs)
        self.first = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        plain = stride == 1 and inputs == outputs
        self.around = nn.Identity() if plain else nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False)
        self.depth = StochasticDepth(skip)

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c2 h2 w2"]:
        """The features, and what two convolutions add to them."""
        y = self.first(F.relu(self.first_norm(x)))
        return self.around(x) + self.depth(self.second(F.relu(self.second_norm(y))))


class ConvolutionalFeatures(nn.Module):
    """A picture [b, c, h, w] as feature maps [b, c', h', w'], after stages of `depth` units each.

    A stage has a width of its own, and its first unit takes strides.
    """

    def __init__(
        self,
        channels: int = 3,
        *,
        widths: tuple[int, ...] = (32, 64, 128),
        strides: tuple[int, ...] = (2, 2, 2),
        depth: int = 2,
        skip: float = 0.0,  # of the last unit; from the first on it grows in equal steps (Huang 2016, eq. 4)
    ) -> None:
        super().__init__()
        if not widths or len(widths) != len(strides) or min(*widths, *strides, depth, channels) < 1:
            raise RegardError(
                f"channels={channels}, widths={widths}, strides={strides}, depth={depth}: at least 1 each, and as "
                "many strides as widths"
            )
        self.channels, self.width, self.strides = channels, widths[-1], strides
        self.stem = nn.Conv2d(channels, widths[0], 3, padding=1, bias=False)
        units: list[nn.Module] = []
        count, inputs = depth * len(widths), widths[0]
        for width, stride in zip(widths, strides, strict=True):
            for number in range(depth):
                share = skip * (len(units) + 1) / count
                units.append(ConvolutionUnit(inputs, width, stride=1 if number else stride, skip=share))
                inputs = width
        self.units = nn.Sequential(*units)
        self.norm = group_norm(self.width)

    def grid(self, height: int, width: int) -> Size:
        """How many rows and columns are left of a picture."""
        for stride in self.strides:
            height, width = -(-height // stride), -(-width // stride)
        return height, width

    def forward(self, pixels: Float[Tensor, "b channels height across"]) -> Float[Tensor, "b _width h2 w2"]:
        """The last feature maps."""
        if pixels.shape[1] != self.channels:
            raise RegardError(
                f"pictures of {pixels.shape[1]} channels, and convolutions made for {self.channels}"
            )
        return F.relu(self.norm(self.units(self.stem(pixels))))


class Convolutional(nn.Module):
    """A picture [b, c, h, w] as tokens [b, n, width], one for each place of the last feature maps, row by row."""

    def __init__(self, width: int, features: ConvolutionalFeatures) -> None:
        super().__init__()
        self.width, self.features = width, features
        self.projection = glorot(nn.Linear(features.width, width))

    def grid(self, height: int, width: int) -> Size:
        """How many rows and columns of tokens a picture has."""
        return self.features.grid(height, width)

    def forward(self, pixels: Float[Tensor, "b channels height across"]) -> Float[Tensor, "b n _width"]:
        """The tokens of some pictures, n = rows · columns."""
        return self.projection(rearrange(self.features(pixels), "b c h w -> b (h w) c"))


def group_norm(channels: int) -> nn.GroupNorm:
    """A norm over groups of channels, eight groups where they divide."""
    return nn.GroupNorm(math.gcd(8, channels), channels)
