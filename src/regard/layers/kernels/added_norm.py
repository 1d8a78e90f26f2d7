"""norm(x + y) in one pass, as a Triton kernel: for answering, where no gradient is asked for."""

from typing import no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor


@triton.jit
@no_type_check
def _added_norm(X, Y, WEIGHT, BIAS, O, width, epsilon, FULL: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * width
    columns = tl.arange(0, FULL)
    inside = columns < width
    x = tl.load(X + row + columns, inside, 0.0).to(tl.float32)
    y = tl.load(Y + row + columns, inside, 0.0).to(tl.float32)
    added = (x + y).to(X.dtype.element_ty).to(tl.float32)  # rounded as a sum in memory is
    mean = tl.sum(added, 0) / width
    apart = tl.where(inside, added - mean, 0.0)
    spread = tl.rsqrt(tl.sum(apart * apart, 0) / width + epsilon)
    weight = tl.load(WEIGHT + columns, inside, 0.0).to(tl.float32)
    bias = tl.load(BIAS + columns, inside, 0.0).to(tl.float32)
    tl.store(O + row + columns, (apart * spread * weight + bias).to(O.dtype.element_ty), inside)


def added_norm(
    x: Float[Tensor, "*b d"], y: Float[Tensor, "*b d"], norm: torch.nn.LayerNorm
) -> Float[Tensor, "*b d"]:
    """The layer norm of a sum."""
    x, y = x.contiguous(), y.contiguous()
    out, width = torch.empty_like(x), x.shape[-1]
    _added_norm[(x.numel() // width,)](
        x,
        y,
        norm.weight,
        norm.bias,
        out,
        width,
        norm.eps,
        FULL=triton.next_power_of_2(width),
        num_warps=4,
    )
    return out
