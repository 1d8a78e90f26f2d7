"""Around a layer that is trained in mixed precision, as Triton kernels: its input normalised, its output thinned and added.

Each is one pass over the memory in either direction. The sum that goes around layers stays in float32; what goes into
a layer is written in 16 bits at once. Backward, the gradient that went around is added on the way, and what dropout left
out is drawn again rather than remembered.
"""

from typing import Any, no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from regard.attention.kernels.columns import column_sums

_TILE = 2048  # numbers of a tile
_PROGRAMS = 528  # that share the rows of a backward pass: four for each multiprocessor of an H200


@triton.jit
@no_type_check
def _norm(
    X, WEIGHT, BIAS, O, MEAN, SPREAD, count, epsilon,
    WIDTH: tl.constexpr, FULL: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, FULL)
    inside = (rows < count)[:, None] & (columns < WIDTH)[None, :]
    at = rows[:, None] * WIDTH + columns[None, :]
    x = tl.load(X + at, inside, 0.0).to(tl.float32)
    mean = tl.sum(x, 1) / WIDTH
    apart = tl.where(inside, x - mean[:, None], 0.0)
    spread = tl.rsqrt(tl.sum(apart * apart, 1) / WIDTH + epsilon)
    weight = tl.load(WEIGHT + columns, columns < WIDTH, 0.0).to(tl.float32)
    bias = tl.load(BIAS + columns, columns < WIDTH, 0.0).to(tl.float32)
    normed = apart * spread[:, None] * weight[None, :] + bias[None, :]
    tl.store(O + at, normed.to(O.dtype.element_ty), inside)
    tl.store(MEAN + rows, mean, rows < count)
    tl.store(SPREAD + rows, spread, rows < count)


@triton.jit
@no_type_check
def _norm_backward(
    X, GO, AROUND, GX, WEIGHT, MEAN, SPREAD, PARTS, count,
    WIDTH: tl.constexpr, FULL: tl.constexpr, ROWS: tl.constexpr, HAS_AROUND: tl.constexpr,
):  # fmt: skip
    program, programs = tl.program_id(0), tl.num_programs(0)
    columns = tl.arange(0, FULL)
    weight = tl.load(WEIGHT + columns, columns < WIDTH, 0.0).to(tl.float32)
    to_weight = tl.zeros([ROWS, FULL], tl.float32)
    to_bias = tl.zeros([ROWS, FULL], tl.float32)
    for start in range(program * ROWS, count, programs * ROWS):
        rows = start + tl.arange(0, ROWS).to(tl.int64)
        inside = (rows < count)[:, None] & (columns < WIDTH)[None, :]
        at = rows[:, None] * WIDTH + columns[None, :]
        mean = tl.load(MEAN + rows, rows < count, 0.0)
        spread = tl.load(SPREAD + rows, rows < count, 0.0)
        x = tl.load(X + at, inside, 0.0).to(tl.float32)
        slope = tl.load(GO + at, inside, 0.0).to(tl.float32)
        unit = tl.where(inside, (x - mean[:, None]) * spread[:, None], 0.0)
        to_weight += slope * unit
        to_bias += slope
        slope *= weight[None, :]
        level = tl.sum(slope, 1) / WIDTH
        along = tl.sum(slope * unit, 1) / WIDTH
        gradient = (slope - level[:, None] - unit * along[:, None]) * spread[:, None]
        if HAS_AROUND:
            gradient += tl.load(AROUND + at, inside, 0.0).to(tl.float32)
        tl.store(GX + at, gradient.to(GX.dtype.element_ty), inside)
    place = program * WIDTH + columns
    tl.store(PARTS + place, tl.sum(to_weight, 0), columns < WIDTH)
    tl.store(PARTS + programs * WIDTH + place, tl.sum(to_bias, 0), columns < WIDTH)


@triton.jit
@no_type_check
def _thinned(X, F, O, SEED, count, dropout, ADDS: tl.constexpr, BLOCK: tl.constexpr):
    """Four blocks of numbers, for random numbers come four at a time."""
    program = tl.program_id(0).to(tl.int64)
    inner = tl.arange(0, BLOCK)
    a, b, c, d = tl.rand4x(tl.load(SEED), program * BLOCK + inner)
    at = program * 4 * BLOCK + inner
    _thin(X, F, O, at, a, count, dropout, ADDS)
    _thin(X, F, O, at + BLOCK, b, count, dropout, ADDS)
    _thin(X, F, O, at + 2 * BLOCK, c, count, dropout, ADDS)
    _thin(X, F, O, at + 3 * BLOCK, d, count, dropout, ADDS)


@triton.jit
@no_type_check
def _thin(X, F, O, at, drawn, count, dropout, ADDS: tl.constexpr):
    inside = at < count
    out = tl.load(F + at, inside, 0.0).to(tl.float32)
    out = tl.where(drawn >= dropout, out / (1.0 - dropout), 0.0)
    if ADDS:
        out += tl.load(X + at, inside, 0.0).to(tl.float32)
    tl.store(O + at, out.to(O.dtype.element_ty), inside)


def forked(
    x: Float[Tensor, "*b d"], norm: nn.LayerNorm, dtype: torch.dtype
) -> tuple[Float[Tensor, "*b d"], Float[Tensor, "*b d"]]:
    """x, and its layer norm in another dtype."""
    if x.numel() == 0:  # a kernel needs a program
        return x, nn.functional.layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps).to(
            dtype
        )
    return _Forked.apply(x.contiguous(), norm.weight, norm.bias, norm.eps, dtype)  # type: ignore[no-untyped-call]


def added(x: Float[Tensor, "*b d"], f: Float[Tensor, "*b d"], dropout: float) -> Float[Tensor, "*b d"]:
    """x + dropout(f), in the dtype of x."""
    if dropout == 0.0 or x.numel() == 0:
        return x + f
    return _Added.apply(x.contiguous(), f.contiguous(), dropout)  # type: ignore[no-untyped-call]


def _sizes(width: int) -> dict[str, Any]:
    full = triton.next_power_of_2(width)
    return {
        "WIDTH": width,
        "FULL": full,
        "ROWS": max(1, _TILE // full),
        "num_warps": 4 if full <= _TILE else 8,
    }


class _Forked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, epsilon, dtype):  # type: ignore[no-untyped-def]
        width = x.shape[-1]
        count, sizes = x.numel() // width, _sizes(width)
        out = torch.empty(x.shape, dtype=dtype, device=x.device)
        mean, spread = torch.empty(2, count, dtype=torch.float32, device=x.device)
        _norm[(triton.cdiv(count, sizes["ROWS"]),)](
            x, weight, bias, out, mean, spread, count, epsilon, **sizes
        )
        ctx.save_for_backward(x, weight, mean, spread)
        ctx.set_materialize_grads(False)
        return x.view_as(x), out

    @staticmethod
    @once_differentiable
    def backward(ctx, around, slope):  # type: ignore[no-untyped-def]
        x, weight, mean, spread = ctx.saved_tensors
        if slope is None:
            return around, None, None, None, None
        width = x.shape[-1]
        count, sizes = x.numel() // width, _sizes(width)
        slope = slope.contiguous()
        around = None if around is None else around.contiguous()
        programs = min(triton.cdiv(count, sizes["ROWS"]), _PROGRAMS)
        to_x = torch.empty_like(x)
        parts = torch.empty(2, programs, width, dtype=torch.float32, device=x.device)
        _norm_backward[(programs,)](
            x, slope, slope if around is None else around, to_x, weight, mean, spread, parts, count,
            HAS_AROUND=around is not None, **sizes,
        )  # fmt: skip
        to_weight, to_bias = column_sums(parts).to(weight.dtype)
        return to_x, to_weight, to_bias, None, None


class _Added(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, f, dropout):  # type: ignore[no-untyped-def]
        seed = torch.randint(1 << 62, (1,), device=x.device)
        ctx.save_for_backward(seed)
        ctx.dropout, ctx.dtype = dropout, f.dtype
        out = torch.empty_like(x)
        _launch(x, f, out, seed, dropout, adds=True)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        grad, (seed,) = grad.contiguous(), ctx.saved_tensors
        to_f = torch.empty(grad.shape, dtype=ctx.dtype, device=grad.device)
        _launch(grad, grad, to_f, seed, ctx.dropout, adds=False)
        return grad, to_f, None


def _launch(x: Tensor, f: Tensor, out: Tensor, seed: Tensor, dropout: float, *, adds: bool) -> None:
    block = 512
    _thinned[(triton.cdiv(x.numel(), 4 * block),)](
        x, f, out, seed, x.numel(), dropout, ADDS=adds, BLOCK=block, num_warps=4
    )
