"""Sums down the columns of tall matrices, as Triton kernels: gradients of what is added to every row."""

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
def _sums(
    X, GATE, GATED, O, count, width, strip, stride,
    HAS_GATE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Down one strip of rows of one of several matrices; of what a gate lets through, which is written down too."""
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    part, matrix = tl.program_id(1), tl.program_id(2).to(tl.int64)
    X += matrix * count * stride
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    end = tl.minimum((part + 1) * strip, count)
    for start in range(part * strip, end, ROWS):
        rows = start + tl.arange(0, ROWS)
        inside = (rows < end)[:, None] & (columns < width)[None, :]
        row = rows[:, None].to(tl.int64)
        x = tl.load(X + row * stride + columns[None, :], inside, 0.0)
        if HAS_GATE:
            at = row * width + columns[None, :]
            x = tl.where(tl.load(GATE + at, inside, 0.0) > 0.0, x, 0.0)
            tl.store(GATED + at, x, inside)
        total += x.to(tl.float32)
    place = (matrix * tl.num_programs(1) + part) * width + columns
    tl.store(O + place, tl.sum(total, 0), columns < width)


def column_sums(x: Float[Tensor, "*several n d"]) -> Float[Tensor, "*several d"]:
    """The sum of the rows of x, in float32."""
    if x.stride(-1) != 1 or (x.ndim > 2 and not x.is_contiguous()):
        x = x.contiguous()
    parts = _launch(x, None, x)
    return (column_sums(parts) if parts.shape[-2] > 1 else parts).reshape(*x.shape[:-2], x.shape[-1])


def gated_sums(
    x: Float[Tensor, "n d"], gate: Float[Tensor, "n d"]
) -> tuple[Float[Tensor, "n d"], Float[Tensor, " d"]]:
    """x where the gate is above 0 and else 0, and the sums of that: backward through a ReLU that gave `gate`."""
    x = x if x.stride(-1) == 1 else x.contiguous()
    gated = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    parts = _launch(x, gate.contiguous(), gated)
    return gated, column_sums(parts)[0]


def _launch(
    x: Float[Tensor, "*several n d"], gate: Float[Tensor, "n d"] | None, gated: Float[Tensor, "*several n d"]
) -> Float[Tensor, "all parts d"]:
    count, width = x.shape[-2:]
    several = x.shape[:-2].numel()
    blocks = triton.cdiv(width, _COLUMNS)
    parts = max(1, min(_PROGRAMS // (blocks * several), triton.cdiv(count, _ROWS)))
    out = torch.empty(several, parts, width, dtype=torch.float32, device=x.device)
    strip = triton.cdiv(triton.cdiv(count, parts), _ROWS) * _ROWS
    _sums[(blocks, parts, several)](
        x, x if gate is None else gate, gated, out, count, width, strip, x.stride(-2),
        HAS_GATE=gate is not None, ROWS=_ROWS, COLUMNS=_COLUMNS, num_warps=4,
    )  # fmt: skip
    return out
