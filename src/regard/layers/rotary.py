"""Rotary positions: turn query and key by an angle that grows with position, so that scores see the difference."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.data.given import vectors
from regard.errors import RegardError
from regard.layers.embedding import FirstRows, capturing


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
        self._first_rows = FirstRows()

    def forward(self, x: Float[Tensor, "*b n d"], *, offset: int | Tensor = 0) -> Float[Tensor, "*b n d"]:
        """x, each position rotated by its angle; the first has position `offset`."""
        x = vectors("x", x, axes=2)
        if x.shape[-1] != self.width:
            raise RegardError(f"Rotary was made for heads of width {self.width}, and got {x.shape[-1]}")
        if isinstance(offset, Tensor) or torch.compiler.is_compiling() or capturing(x):
            return turned(x, self._turns(numbers(x, offset), x.dtype))
        last = offset + x.shape[-2]
        table = self._first_rows(lambda positions: self._turns(positions, x.dtype), last, x)
        return turned(x, table[offset:last])

    def _turns(self, positions: Int[Tensor, " n"], dtype: torch.dtype) -> Tensor:
        return turns(angles(positions, self.width, self.base), dtype)


def numbers(x: Tensor, offset: int | Tensor) -> Tensor:
    """The position numbers of x."""
    if isinstance(offset, Tensor):
        return offset
    return torch.arange(offset, offset + x.shape[-2], device=x.device)


def angles(positions: Int[Tensor, " n"], width: int, base: float) -> Float[Tensor, "n pairs"]:
    """t · base^(−2i/d)."""
    # Made anew in float64: a buffer would lose its digits when the model becomes bfloat16.
    frequencies = base ** (-torch.arange(0, width, 2, device=positions.device, dtype=torch.float64) / width)
    return positions[:, None] * frequencies


def turns(angle: Float[Tensor, "n pairs"], dtype: torch.dtype) -> Tensor:
    """e^(i·angle), as precise as numbers of this type; there are no complex numbers of half precision."""
    points = torch.polar(torch.ones_like(angle), angle)
    return points if dtype == torch.float64 else points.to(torch.complex64)


def turned(x: Float[Tensor, "*b n d"], turns: Tensor) -> Float[Tensor, "*b n d"]:
    """Neighbouring features, as a point in the complex plane, turned: one step, and no strided reads."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32)).contiguous()
    points = torch.view_as_complex(wide.view(*wide.shape[:-1], -1, 2)) * turns
    return torch.view_as_real(points).flatten(-2).to(x.dtype)
