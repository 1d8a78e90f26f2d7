"""What the Triton kernels of additive attention share: hyperbolic tangents of sums, a tile at a time.

With E = exp(2x), tanh(q + k) = 1 − 2 / (1 + E_q E_k): the exponentials belong to a query or a key alone and are taken
once, and what is left for a pair is a product and a reciprocal. Two hidden units share one reciprocal,

    v / d + w / e = (v e + w d) / (d e),

so a pair costs half a use of the special-function unit for each hidden unit, where a tanh would cost a whole one. Sums
are in float32, which leaves an error of 1e-7 for each tanh: far below half precision, not enough for float32, where
`tangent` is taken of each sum instead. It is taken too, in any precision, for a pair whose E_q E_k might overflow
(`WIDE`). Which of the two a pair gets depends on nothing but its own query and key.

A tile is [others, own]: a thread holds one of `own` and all of `others`, so sums over `others` stay in the thread.
"""

# mypy: ignore-errors

from typing import no_type_check

import triton
import triton.language as tl

SHARPNESS: tl.constexpr = tl.constexpr(2.8853900817779268)  # 2 log₂ e: exp(2x) = 2 ** (SHARPNESS · x)
LOG2_E: tl.constexpr = tl.constexpr(1.4426950408889634)
WIDE: tl.constexpr = tl.constexpr(60.0)  # log₂ of E_q E_k up to which the product of two is a float32


@triton.jit
@no_type_check
def prepare_kernel(
    x, plain, exponential, size, heads, length, hidden, padded, width, by_row,
    x_batch, x_head, x_row, x_column,
    BY_ROW: tl.constexpr, PAIRED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """x [b, h, length, hidden] → itself and exp(2x), each [b·h, padded hidden, padded length], and max |log₂ exp(2x)|.

    With BY_ROW also [b·h, padded length, padded hidden], from the place `by_row` on. What is filled in is x = 0, which is finite everywhere and meets a zero in the vector.
    """
    entry = tl.program_id(0).to(tl.int64)
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    x += (entry // heads) * x_batch + (entry % heads) * x_head
    largest = tl.zeros([ROWS], tl.float32)
    for start in range(0, width, COLUMNS):
        columns = start + tl.arange(0, COLUMNS)
        inside = (rows < length)[:, None] & (columns < hidden)[None, :]
        part = tl.load(
            x + rows[:, None].to(tl.int64) * x_row + columns[None, :] * x_column, mask=inside, other=0.0
        )
        place = (entry * width + columns[None, :]) * padded + rows[:, None]
        row_place = by_row + (entry * padded + rows[:, None]) * width + columns[None, :]
        written = (rows < padded)[:, None] & (columns < width)[None, :]
        tl.store(plain + place, part, mask=written)
        if BY_ROW:
            tl.store(plain + row_place, part, mask=written)
        if PAIRED:
            power = part.to(tl.float32) * SHARPNESS
            tl.store(exponential + place, tl.exp2(power), mask=written)
            if BY_ROW:
                tl.store(exponential + row_place, tl.exp2(power), mask=written)
            largest = tl.maximum(largest, tl.max(tl.abs(power), 1), propagate_nan=tl.PropagateNan.ALL)
    if PAIRED:
        tl.store(size + entry * padded + rows, largest, mask=rows < padded)


@triton.jit
@no_type_check
def reciprocal(x, HARDWARE: tl.constexpr):
    """1 / x to the last bit but one."""
    if HARDWARE:
        return tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    return 1.0 / x


@triton.jit
@no_type_check
def product(a, b, sums, HARDWARE: tl.constexpr):
    """a · b + sums, with sums in float32."""
    if not HARDWARE:  # the interpreter multiplies the bits of bfloat16
        a, b = a.to(tl.float32), b.to(tl.float32)
    return tl.dot(a, b, sums, input_precision="ieee")


@triton.jit
@no_type_check
def tangent(x):
    """tanh to about two units in the last place of float32: a series where it is small, the exponential elsewhere."""
    y = x * x
    tail = (
        0.0026762152 * y - 0.008635473
    )  # fitted to (tanh x − x + x³/3) / x⁵ on |x| < 0.55, to 7e-10 of tanh x
    tail = (tail * y + 0.021845618) * y - 0.05396737
    small = x + x * y * (y * (tail * y + 0.13333333) - 0.33333333)
    big = 1.0 - 2.0 / (1.0 + tl.exp2(tl.abs(x) * SHARPNESS))
    return tl.where(tl.abs(x) < 0.55, small, tl.where(x < 0, -big, big))


@triton.jit
@no_type_check
def tile_scores(
    own_exp, own_plain, own_size, own_padded, other_exp, other_plain, other_size, other_padded,
    vector, width, OWNS: tl.constexpr, OTHERS: tl.constexpr, UNROLL: tl.constexpr,
    PAIRED: tl.constexpr, HARDWARE: tl.constexpr,
):  # fmt: skip
    """Σ v tanh(own + other) as [others, owns]; the pointers are to the first own and the first other of the tile.

    Offsets within a tile are constants, which the loads then carry as such.
    """
    if PAIRED:
        owns, others = tl.arange(0, OWNS), tl.arange(0, OTHERS)
        sums, total = tl.zeros([OTHERS, OWNS], tl.float32), 0.0
        a_row, b_row = own_exp, other_exp
        for r in range(0, width, 2 * UNROLL):
            for i in tl.static_range(0, 2 * UNROLL, 2):
                first = tl.load(b_row + others)[:, None] * tl.load(a_row + owns)[None, :] + 1.0
                a_row += own_padded
                b_row += other_padded
                second = tl.load(b_row + others)[:, None] * tl.load(a_row + owns)[None, :] + 1.0
                a_row += own_padded
                b_row += other_padded
                v, w = tl.load(vector + r + i), tl.load(vector + r + i + 1)
                total += v + w
                sums += (v * second + w * first) * reciprocal(first * second, HARDWARE)
        scores = total - 2.0 * sums
        own_sizes, other_sizes = tl.load(own_size + owns), tl.load(other_size + others)
        if tl.max(own_sizes) + tl.max(other_sizes) > WIDE:
            exact = plain_scores(
                own_plain, own_padded, other_plain, other_padded, vector, width, OWNS, OTHERS
            )
            scores = tl.where(other_sizes[:, None] + own_sizes[None, :] > WIDE, exact, scores)
    else:
        scores = plain_scores(own_plain, own_padded, other_plain, other_padded, vector, width, OWNS, OTHERS)
    return scores


@triton.jit
@no_type_check
def plain_scores(
    own, own_padded, other, other_padded, vector, width, OWNS: tl.constexpr, OTHERS: tl.constexpr
):
    """The same with a `tangent` for each number, summed eight by eight, which rounds less than one by one."""
    owns, others = tl.arange(0, OWNS), tl.arange(0, OTHERS)
    sums = tl.zeros([OTHERS, OWNS], tl.float32)
    for r in range(0, width, 8):
        eight = tl.zeros([OTHERS, OWNS], tl.float32)
        for i in range(0, 8):
            a = tl.load(own + owns).to(tl.float32)
            b = tl.load(other + others).to(tl.float32)
            eight += tl.load(vector + r + i) * tangent(b[:, None] + a[None, :])
            own += own_padded
            other += other_padded
        sums += eight
    return sums
