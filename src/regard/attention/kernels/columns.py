"""Sums down the columns of tall matrices, as a Triton kernel: gradients of what is added to every row."""

from typing import no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

_ROWS, _COLUMNS = 64, 64  # of a tile
_PROGRAMS = 512  # that share the work, where there is enough


@triton.jit
@no_type_check
def _sums(X, O, count, width, strip, stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Down one strip of rows of one of several matrices."""
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    part, matrix = tl.program_id(1), tl.program_id(2).to(tl.int64)
    X += matrix * count * stride
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    end = tl.minimum((part + 1) * strip, count)
    for start in range(part * strip, end, ROWS):
        rows = start + tl.arange(0, ROWS)
        inside = (rows < end)[:, None] & (columns < width)[None, :]
        total += tl.load(X + rows[:, None].to(tl.int64) * stride + columns[None, :], inside, 0.0).to(
            tl.float32
        )
    place = (matrix * tl.num_programs(1) + part) * width + columns
    tl.store(O + place, tl.sum(total, 0), columns < width)


def column_sums(x: Float[Tensor, "*several n d"]) -> Float[Tensor, "*several d"]:
    """Σₙ x, in float32."""
    if x.stride(-1) != 1 or (x.ndim > 2 and not x.is_contiguous()):
        x = x.contiguous()
    count, width = x.shape[-2:]
    several = x.shape[:-2].numel()
    blocks = triton.cdiv(width, _COLUMNS)
    parts = max(1, min(_PROGRAMS // (blocks * several), triton.cdiv(count, _ROWS)))
    out = torch.empty(several, parts, width, dtype=torch.float32, device=x.device)
    strip = triton.cdiv(triton.cdiv(count, parts), _ROWS) * _ROWS
    _sums[(blocks, parts, several)](
        x, out, count, width, strip, x.stride(-2), ROWS=_ROWS, COLUMNS=_COLUMNS, num_warps=4
    )
    return column_sums(out).view(*x.shape[:-2], width) if parts > 1 else out.view(*x.shape[:-2], width)
