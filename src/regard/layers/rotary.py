"""Rotary positions: turn query and key by an angle that grows with position, so that scores see the difference."""

from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.data.given import vectors
from regard.errors import RegardError
from regard.layers.positions import recording


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

    def forward(self, x: Float[Tensor, "*b n d"], *, offset: int | Tensor = 0) -> Float[Tensor, "*b n d"]:
        """x, each position rotated by its angle; the first has position `offset`."""
        x = vectors("x", x, axes=2)
        if x.shape[-1] != self.width:
            raise RegardError(f"Rotary was made for heads of width {self.width}, and got {x.shape[-1]}")
        if isinstance(offset, Tensor):
            return _turned(x, _turns(_angles(offset, self.width, self.base), x.dtype))
        last = offset + x.shape[-2]
        if torch.compiler.is_compiling() or recording(x):
            return _turned(x, _turns(_angles(_numbers(x, offset), self.width, self.base), x.dtype))
        size = max(64, 1 << (last - 1).bit_length())  # few tables, of doubled lengths
        return _turned(x, _table(size, self.width, self.base, x.dtype, x.device)[offset:last])


class GridRotary(nn.Module):
    """The first half of the features is turned by the row of a patch, the second half by its column.

    Scores then depend on how many rows and columns are between two patches (Heo 2024, axial). Patches
    come row by row, `columns` to a row, after `leading` positions that are nowhere on the grid (a class token) and
    are left as they are. A grid is short beside a text, hence the smaller base.
    """

    def __init__(self, width: int, *, columns: int, leading: int = 0, base: float = 100.0) -> None:
        super().__init__()
        if width < 4 or width % 4 or columns < 1:
            raise RegardError(
                f"GridRotary(width={width}, columns={columns}): rows and columns turn half of the features each, in "
                "pairs, so the width of a head must be a multiple of 4, and there must be a column"
            )
        self.width, self.columns, self.leading, self.base = width, columns, leading, base

    def forward(self, x: Float[Tensor, "*b n d"], *, offset: int | Tensor = 0) -> Float[Tensor, "*b n d"]:
        """x, each patch rotated by its place; the first has position `offset`."""
        x = vectors("x", x, axes=2)
        if x.shape[-1] != self.width:
            raise RegardError(f"GridRotary was made for heads of width {self.width}, and got {x.shape[-1]}")
        patch = (_numbers(x, offset) - self.leading).clamp_min(0)  # an angle of 0 turns nothing
        places = (patch // self.columns, patch % self.columns)
        angles = [_angles(place, self.width // 2, self.base) for place in places]
        return _turned(x, _turns(torch.cat(angles, dim=-1), x.dtype))


def _numbers(x: Tensor, offset: int | Tensor) -> Tensor:
    if isinstance(offset, Tensor):
        return offset
    return torch.arange(offset, offset + x.shape[-2], device=x.device)


def _angles(positions: Int[Tensor, " n"], width: int, base: float) -> Float[Tensor, "n pairs"]:
    # Made anew in float64: a buffer would lose its digits when the model becomes bfloat16.
    turns = base ** (-torch.arange(0, width, 2, device=positions.device, dtype=torch.float64) / width)
    return positions[:, None] * turns


def _turns(angle: Float[Tensor, "n pairs"], dtype: torch.dtype) -> Tensor:
    """e^(i·angle), as precise as numbers of this type; there are no complex numbers of half precision."""
    turns = torch.polar(torch.ones_like(angle), angle)
    return turns if dtype == torch.float64 else turns.to(torch.complex64)


@lru_cache(maxsize=16)
def _table(size: int, width: int, base: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The turns of the first positions: all layers turn by the same, and decoding asks at every step."""
    with torch.inference_mode(False):  # a table made inside it could not be used in training
        return _turns(_angles(torch.arange(size, device=device), width, base), dtype)


def _turned(x: Float[Tensor, "*b n d"], turns: Tensor) -> Float[Tensor, "*b n d"]:
    """Neighbouring features, as a point in the complex plane, turned: one step, and no strided reads."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32)).contiguous()
    turned = torch.view_as_complex(wide.view(*wide.shape[:-1], -1, 2)) * turns
    return torch.view_as_real(turned).flatten(-2).to(x.dtype)
