"""A linear map of a few rows with what stands around it, as a Triton kernel: a step of decoding is a row of these.

So few rows leave a GPU waiting: for a kernel to start, for the first numbers to arrive. Here a norm before the map, and
the activation or the residual behind it, cost no kernel of their own, and each of many programs makes a few outputs of a
few rows. The width is cut into parts that the warps of a program sum up side by side.
"""

from dataclasses import dataclass
from typing import no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor, nn
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from regard.attention.kernels.early import early


@dataclass(frozen=True)
class Tile:
    """What a program makes, and how."""

    rows: int
    columns: int
    parts: int  # that the width is cut into
    warps: int


@triton.jit
@no_type_check
def _narrow(
    X, WEIGHT, BIAS, SCALE, SHIFT, AROUND, ENTERED, Y, rows, width, outputs, epsilon,
    NORMED: tl.constexpr, KEPT: tl.constexpr, BIASED: tl.constexpr, ACTIVATION: tl.constexpr, ADDED: tl.constexpr,
    ONCE: tl.constexpr, EARLY: tl.constexpr, PARTS: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(1) * M + tl.arange(0, M)
    column = tl.program_id(0) * N + tl.arange(0, N)
    place = tl.arange(0, PARTS)[:, None, None] * K + tl.arange(0, K)[None, None, :]
    there = row < rows
    wanted = column < outputs
    start = row.to(tl.int64)[None, :, None] * width
    WEIGHT += column.to(tl.int64)[None, :, None] * width
    # Weights are there whatever the kernel before this one still writes.
    weight = tl.load(WEIGHT + place, wanted[None, :, None] & (place < width), 0.0)
    if BIASED:
        bias = tl.load(BIAS + column, wanted, 0.0).to(tl.float32)
    if NORMED:
        scale = tl.load(SCALE + place, place < width, 0.0).to(tl.float32)
        shift = tl.load(SHIFT + place, place < width, 0.0).to(tl.float32)
    if EARLY:
        gdc_wait()
        gdc_launch_dependents()
    x = tl.load(X + start + place, there[None, :, None] & (place < width), 0.0)
    if ADDED:
        inside = there[:, None] & wanted[None, :]
        corner = row.to(tl.int64)[:, None] * outputs + column[None, :]
        around = tl.load(AROUND + corner, inside, 0.0).to(tl.float32)
    if NORMED:
        x32 = x.to(tl.float32)
        mean = tl.sum(tl.sum(x32, 2), 0) / width
        apart = tl.where(place < width, x32 - mean[None, :, None], 0.0)
        spread = tl.rsqrt(tl.sum(tl.sum(apart * apart, 2), 0) / width + epsilon)
        x = (apart * spread[None, :, None] * scale + shift).to(x.dtype)
        if KEPT:  # by one program for each row
            mine = there[None, :, None] & (place < width) & (tl.program_id(0) == 0)
            tl.store(ENTERED + start + place, x, mine)
    sums = tl.dot(x, tl.permute(weight, (0, 2, 1)), input_precision=PRECISION)
    if not ONCE:
        for begin in range(PARTS * K, width, PARTS * K):
            further = begin + place
            x = tl.load(X + start + further, there[None, :, None] & (further < width), 0.0)
            weight = tl.load(WEIGHT + further, wanted[None, :, None] & (further < width), 0.0)
            sums = tl.dot(x, tl.permute(weight, (0, 2, 1)), sums, input_precision=PRECISION)
    y = tl.sum(sums, 0)
    if BIASED:
        y += bias[None, :]
    if ACTIVATION == "relu":
        y = tl.maximum(y, 0.0, propagate_nan=tl.PropagateNan.ALL)
    if ACTIVATION == "gelu":
        y = 0.5 * y * (1.0 + tl.erf(y * 0.7071067811865476))
    if ADDED:
        y += around
    corner = row.to(tl.int64)[:, None] * outputs + column[None, :]
    tl.store(Y + corner, y.to(Y.dtype.element_ty), there[:, None] & wanted[None, :])


MOST = 256  # rows, beyond which a library's products are faster
_WIDEST = 4096  # features of a row that is normalised: a program holds all of it
_AT_ONCE = 2048  # features that a program reads at once


def narrow(
    x: Float[Tensor, "rows d"],
    weight: Float[Tensor, "outputs d"],
    bias: Float[Tensor, " outputs"] | None = None,
    *,
    norm: nn.LayerNorm | None = None,
    activation: str = "",  # "relu" or "gelu"
    around: Float[Tensor, "rows outputs"] | None = None,
    entered: Float[Tensor, "rows d"] | None = None,
    tile: Tile | None = None,
) -> Float[Tensor, "rows outputs"]:
    """around + activation(W norm(x) + b). What the norm makes of x is written into `entered`."""
    rows, width = x.shape
    outputs = len(weight)
    y = x.new_empty(rows, outputs)
    tile = tile or _tile(outputs, width)
    at_once = max(16 * tile.parts, triton.next_power_of_2(width))
    if norm is None:
        at_once = min(at_once, _AT_ONCE)
    soon = early(x.device)
    options = {"launch_pdl": True} if soon else {}
    _narrow[(triton.cdiv(outputs, tile.columns), triton.cdiv(rows, tile.rows))](
        x, weight, weight if bias is None else bias, *((x, x) if norm is None else (norm.weight, norm.bias)),
        x if around is None else around, x if entered is None else entered, y,
        rows, width, outputs, 0.0 if norm is None else norm.eps,
        NORMED=norm is not None, KEPT=entered is not None, BIASED=bias is not None, ACTIVATION=activation,
        ADDED=around is not None, ONCE=at_once >= width, EARLY=soon,
        PARTS=tile.parts, M=tile.rows, N=tile.columns, K=at_once // tile.parts,
        PRECISION="ieee" if x.dtype == torch.float32 else "tf32", num_warps=tile.warps, **options,
    )  # fmt: skip
    return y


def _tile(outputs: int, width: int) -> Tile:
    """So that about every multiprocessor has a program, and reads as little as can be."""
    if outputs > 4096:
        return Tile(32, 64, 8, 8)
    if outputs > 512:
        return Tile(32, 32, 8, 8)
    return Tile(16, 16, 8, 8)
