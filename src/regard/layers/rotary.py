"""Rotary positions: turn query and key by an angle that grows with position, so that scores see the difference."""

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import RegardError


class Rotary(nn.Module):
    """Feature pair i of position t is turned by t · base^(−2i/d) (Su 2021, eq. 34).

    A turn keeps lengths, and two turned vectors meet under the difference of their angles: q_iᵀk_j depends on
    i − j alone. It is one more map into the space of the dot product, so every fused kernel takes it.
    """

    def __init__(self, width: int, *, base: float = 10000.0) -> None:
        super().__init__()
        if width < 2 or width % 2:
            raise RegardError(
                f"Rotary(width={width}): features turn in pairs, so the width of a head must be even"
            )
        self.width, self.base = width, base

    def forward(self, x: Float[Tensor, "*b n d"], *, offset: int = 0) -> Float[Tensor, "*b n d"]:
        """x, each position turned by its angle; the first stands at `offset`."""
        if x.shape[-1] != self.width:
            raise RegardError(f"Rotary was made for heads of width {self.width}, and got {x.shape[-1]}")
        # Angles are made anew in float64: a buffer would lose its digits when the model becomes bfloat16.
        turns = self.base ** (
            -torch.arange(0, self.width, 2, device=x.device, dtype=torch.float64) / self.width
        )
        angle = torch.arange(offset, offset + x.shape[-2], device=x.device)[:, None] * turns
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        even, odd = rearrange(x, "... (pair two) -> two ... pair", two=2)
        turned = [even * cos - odd * sin, even * sin + odd * cos]
        return rearrange(turned, "two ... pair -> ... (pair two)")
