"""Positions of the patches of a picture: two numbers each, its row and its column."""

import math

import torch
from einops import rearrange, repeat
from jaxtyping import Float
from torch import Tensor, nn

from regard.data.given import vectors
from regard.errors import RegardError
from regard.layers.embedding import Positions
from regard.layers.rotary import angles, numbers, turned, turns


class _GridVectors(nn.Module):
    """A vector for each place of a grid, added to patches or put beside them."""

    width: int

    def add(self, x: Float[Tensor, "*b n width"], *, rows: int, columns: int) -> Float[Tensor, "*b n width"]:
        """x + p, for patches in row order."""
        if x.shape[-2:] != (rows * columns, self.width):
            raise RegardError(
                f"a {rows} × {columns} grid of width {self.width} cannot be added to {tuple(x.shape[-2:])}"
            )
        return x + self(rows, columns).to(x)

    def concatenate(
        self, x: Float[Tensor, "*b n d"], *, rows: int, columns: int
    ) -> Float[Tensor, "*b n d+{self.width}"]:
        """[x, p], for patches in row order."""
        if x.shape[-2] != rows * columns:
            raise RegardError(f"a {rows} × {columns} grid cannot be beside {x.shape[-2]} patches")
        return torch.cat([x, self(rows, columns).to(x).expand(*x.shape[:-1], -1)], dim=-1)


class Grid(_GridVectors):
    """Two positions at once, for images: the vector of the row beside the vector of the column."""

    def __init__(self, rows: Positions, columns: Positions) -> None:
        super().__init__()
        self.rows, self.columns = rows, columns
        self.width = rows.width + columns.width

    def forward(self, rows: int, columns: int) -> Float[Tensor, "{rows}*{columns} _width"]:
        """The vectors of a whole grid, row by row."""
        device = next((tensor.device for tensor in [*self.parameters(), *self.buffers()]), None)
        down = self.rows(torch.arange(rows, device=device))
        across = self.columns(torch.arange(columns, device=device))
        pair = [repeat(down, "r d -> (r c) d", c=columns), repeat(across, "c d -> (r c) d", r=rows)]
        return torch.cat(pair, dim=-1)


class LearnedGrid(_GridVectors):
    """A vector for each place of a `rows` × `columns` grid, trained; on another grid, the same surface seen elsewhere.

    In between it is interpolated by cubics (Dosovitskiy 2021, section 3.2), so a picture may have any size.
    """

    def __init__(self, width: int, *, rows: int, columns: int) -> None:
        super().__init__()
        if width < 1 or rows < 1 or columns < 1:
            raise RegardError(f"LearnedGrid(width={width}, rows={rows}, columns={columns}): at least 1 each")
        self.width = width
        # As large as sines and cosines: patches are as large themselves, and beside them little would be noticed late.
        self.table = nn.Parameter(torch.randn(rows, columns, width) * math.sqrt(0.5))

    def forward(self, rows: int, columns: int) -> Float[Tensor, "{rows}*{columns} _width"]:
        """The vectors of a whole grid, row by row."""
        if (rows, columns) == self.table.shape[:2]:
            return self.table.flatten(0, 1)
        surface = rearrange(self.table, "r c d -> 1 d r c")
        seen = nn.functional.interpolate(surface, (rows, columns), mode="bicubic", align_corners=False)
        return rearrange(seen, "1 d r c -> (r c) d")


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
        patch = (numbers(x, offset) - self.leading).clamp_min(0)  # an angle of 0 turns nothing
        places = (patch // self.columns, patch % self.columns)
        both = [angles(place, self.width // 2, self.base) for place in places]
        return turned(x, turns(torch.cat(both, dim=-1), x.dtype))
