"""Patches: a picture as a sequence, one vector for each small square of it (Dosovitskiy 2021, eq. 1)."""

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.multihead import glorot
from regard.data.given import vectors
from regard.errors import RegardError

Size = tuple[int, int]  # rows, columns


class Patches(nn.Module):
    """W · flatten(patch) + b for every p × p patch, row by row: 224 × 224 pixels at 16 are 196 tokens.

    The same as a convolution whose stride is as wide as its kernel.
    """

    def __init__(self, width: int, *, channels: int = 3, patch: Size = (16, 16)) -> None:
        super().__init__()
        if width < 1 or channels < 1 or min(patch) < 1:
            raise RegardError(f"Patches(width={width}, channels={channels}, patch={patch}): at least 1 each")
        self.width, self.channels, self.patch = width, channels, patch
        self.projection = glorot(nn.Linear(channels * patch[0] * patch[1], width))

    def grid(self, height: int, width: int) -> Size:
        """How many rows and columns of patches a picture has."""
        down, across = self.patch
        if height < 1 or width < 1 or height % down or width % across:
            raise RegardError(
                f"a picture of {height} × {width} does not divide into patches of {down} × {across}: resize or crop it, "
                "or choose another patch"
            )
        return height // down, width // across

    def forward(self, pixels: Float[Tensor, "b channels height across"]) -> Float[Tensor, "b n _width"]:
        """The tokens of some pictures, n = rows · columns."""
        pixels = vectors("pixels", pixels, axes=4, of=self)
        if pixels.shape[1] != self.channels:
            raise RegardError(f"pictures of {pixels.shape[1]} channels, and patches made for {self.channels}")
        rows, columns = self.grid(*pixels.shape[2:])
        return self.projection(rearrange(pixels, "b c (r p) (s q) -> b (r s) (c p q)", r=rows, s=columns))


def read_dtype(linear: nn.Module) -> torch.dtype:
    """What a linear map reads; one whose weights are packed for inference reads float32."""
    return linear.weight.dtype if isinstance(linear, nn.Linear) else torch.float32
