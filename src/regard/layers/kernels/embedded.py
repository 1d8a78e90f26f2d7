"""The vectors of one token a row at one position, as a Triton kernel: what a step of decoding begins with."""

import math
from typing import no_type_check

import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from regard.attention.kernels.early import early


@triton.jit
@no_type_check
def _embedded(
    TOKENS, TABLE, AT, VECTORS, O, width, factor,
    PLACED: tl.constexpr, EARLY: tl.constexpr, FULL: tl.constexpr,
):  # fmt: skip
    row, columns = tl.program_id(0).to(tl.int64), tl.arange(0, FULL)
    inside = columns < width
    if EARLY:
        gdc_wait()
        gdc_launch_dependents()
    x = tl.load(TABLE + tl.load(TOKENS + row) * width + columns, inside, 0.0)
    x = (x.to(tl.float32) * factor).to(x.dtype)  # rounded as a product in memory is; hence no fusion
    if PLACED:
        place = tl.load(VECTORS + tl.load(AT) * width + columns, inside, 0.0)
        x = (x.to(tl.float32) + place.to(tl.float32)).to(x.dtype)
    tl.store(O + row * width + columns, x, inside)


def embedded(
    tokens: Int[Tensor, " rows"],
    table: Float[Tensor, "words d"],
    *,
    at: Int[Tensor, " 1"],
    vectors: Float[Tensor, "positions d"],  # none, where tokens alone count
) -> Float[Tensor, "rows d"]:
    """√d · E[token] + p[at]."""
    width = table.shape[-1]
    out = table.new_empty(len(tokens), width)
    _embedded[(len(tokens),)](
        tokens, table, at, vectors, out, width, math.sqrt(width),
        PLACED=len(vectors) > 0, FULL=triton.next_power_of_2(width), num_warps=2, enable_fp_fusion=False, **early(table.device),
    )  # fmt: skip
    return out
