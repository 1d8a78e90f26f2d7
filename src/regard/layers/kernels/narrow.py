"""A linear map of a few rows, as a Triton kernel: a step of decoding is mostly these.

So few rows leave a GPU waiting: for a kernel to start, for the first numbers to arrive. Here many small programs read
their weights before the rows are there, and each makes a few outputs of a few rows. The width is cut into parts that the
warps of a program sum up side by side; a wide one is cut further, for programs of their own, and who reads adds up.
"""

from dataclasses import dataclass
from typing import no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from regard.attention.kernels.early import early


@dataclass(frozen=True)
class LinearTile:
    """What a program makes, and how."""

    rows: int
    columns: int
    parts: int  # that the width is cut into, one a warp
    cuts: int = 1  # that the width is cut into before, one a program


@triton.jit
@no_type_check
def _narrow(
    X, WEIGHT, BIAS, Y, rows, width, outputs,
    BIASED: tl.constexpr, ACTIVATION: tl.constexpr, EARLY: tl.constexpr, PARTS: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(1) * M + tl.arange(0, M)
    column = tl.program_id(0) * N + tl.arange(0, N)
    cut = tl.program_id(2)
    if EARLY:
        gdc_launch_dependents()
    place = cut * PARTS * K + tl.arange(0, PARTS)[:, None, None] * K + tl.arange(0, K)[None, None, :]
    there, wanted = row < rows, column < outputs
    start = column.to(tl.int64)[None, :, None] * width + place
    # Weights are there, whatever the kernel before this one still writes.
    weight = tl.load(WEIGHT + start, wanted[None, :, None] & (place < width), 0.0)
    if BIASED:
        bias = tl.load(BIAS + column, wanted & (cut == 0), 0.0).to(tl.float32)
    if EARLY:
        gdc_wait()
    start = row.to(tl.int64)[None, :, None] * width + place
    x = tl.load(X + start, there[None, :, None] & (place < width), 0.0)
    y = tl.sum(tl.dot(x, tl.permute(weight, (0, 2, 1)), input_precision=PRECISION), 0)
    if BIASED:
        y += bias[None, :]
    if ACTIVATION == "relu":
        y = tl.maximum(y, 0.0, propagate_nan=tl.PropagateNan.ALL)
    if ACTIVATION == "gelu":
        y = 0.5 * y * (1.0 + tl.erf(y * 0.7071067811865476))
    corner = (cut * rows + row).to(tl.int64)[:, None] * outputs + column[None, :]
    tl.store(Y + corner, y.to(Y.dtype.element_ty), there[:, None] & wanted[None, :])


def narrow(
    x: Float[Tensor, "rows d"],
    weight: Float[Tensor, "outputs d"],
    bias: Float[Tensor, " outputs"] | None = None,
    *,
    activation: str = "",  # "relu" or "gelu"
    tile: LinearTile | None = None,
) -> Float[Tensor, "rows outputs"]:
    """activation(Wx + b), of a width that one program reads."""
    return _launch(x, weight, bias, activation, tile or _tile(len(weight)))[0]


def narrow_sums(
    x: Float[Tensor, "rows d"],
    weight: Float[Tensor, "outputs d"],
    bias: Float[Tensor, " outputs"] | None = None,
    *,
    tile: LinearTile | None = None,
) -> Float[Tensor, "cuts rows outputs"]:
    """Numbers whose sum is Wx + b, in float32."""
    cuts = max(2, triton.cdiv(x.shape[-1], 1024))  # a program has room for no more
    parts = max(1, triton.next_power_of_2(triton.cdiv(x.shape[-1], cuts)) // 256)
    return _launch(x, weight, bias, "", tile or LinearTile(16, 32, parts, cuts))


def _launch(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str, tile: LinearTile) -> Tensor:
    (rows, width), outputs = x.shape, len(weight)
    y = x.new_empty(tile.cuts, rows, outputs, dtype=x.dtype if tile.cuts == 1 else torch.float32)
    each = triton.next_power_of_2(triton.cdiv(width, tile.cuts))
    _narrow[(triton.cdiv(outputs, tile.columns), triton.cdiv(rows, tile.rows), tile.cuts)](
        x, weight, weight if bias is None else bias, y, rows, width, outputs,
        BIASED=bias is not None, ACTIVATION=activation, PARTS=tile.parts,
        M=tile.rows, N=tile.columns, K=max(16, each // tile.parts),
        PRECISION="ieee" if x.dtype == torch.float32 else "tf32", num_warps=tile.parts,
        **early(x.device),
    )  # fmt: skip
    return y


def _tile(outputs: int) -> LinearTile:
    """So that about every multiprocessor has a program or two."""
    return LinearTile(16, 16, 1) if outputs <= 512 else LinearTile(16, 32, 2)
