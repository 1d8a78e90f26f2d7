"""norm(x + y) in one pass, as a Triton kernel: for inference, without gradients."""

from typing import no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from regard.attention.kernels.early import early


@triton.jit
@no_type_check
def _added_norm(
    X, Y, WEIGHT, BIAS, O, SUM, rows, width, epsilon,
    PARTS: tl.constexpr, KEPT: tl.constexpr, EARLY: tl.constexpr, FULL: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * width
    columns = tl.arange(0, FULL)
    inside = columns < width
    if EARLY:
        gdc_launch_dependents()
    weight = tl.load(WEIGHT + columns, inside, 0.0).to(tl.float32)
    bias = tl.load(BIAS + columns, inside, 0.0).to(tl.float32)
    if EARLY:
        gdc_wait()
    x = tl.load(X + row + columns, inside, 0.0).to(tl.float32)
    y = tl.load(Y + row + columns, inside, 0.0).to(tl.float32)
    for part in tl.static_range(1, PARTS):
        y += tl.load(Y + part * rows * width + row + columns, inside, 0.0)
    added = (x + y).to(X.dtype.element_ty)  # rounded as a sum in memory is
    if KEPT:
        tl.store(SUM + row + columns, added, inside)
    added = added.to(tl.float32)
    mean = tl.sum(added, 0) / width
    apart = tl.where(inside, added - mean, 0.0)
    spread = tl.rsqrt(tl.sum(apart * apart, 0) / width + epsilon)
    tl.store(O + row + columns, (apart * spread * weight + bias).to(O.dtype.element_ty), inside)


def added_norm(
    x: Float[Tensor, "*b d"], y: Float[Tensor, "*b d"], norm: torch.nn.LayerNorm
) -> Float[Tensor, "*b d"]:
    """The layer norm of a sum."""
    return summed_norm(x, y[None], norm)


def summed_norm(
    x: Float[Tensor, "*b d"],
    parts: Float[Tensor, "n *b d"],
    norm: torch.nn.LayerNorm,
    *,
    total: Float[Tensor, "*b d"] | None = None,
) -> Float[Tensor, "*b d"]:
    """The layer norm of x and all parts together; the sum itself is written into `total`, if there is one."""
    x, parts = x.contiguous(), parts.contiguous()
    out, width = torch.empty_like(x), x.shape[-1]
    rows = x.numel() // width
    _added_norm[(rows,)](
        x, parts, norm.weight, norm.bias, out, out if total is None else total, rows, width, norm.eps,
        PARTS=len(parts), KEPT=total is not None, FULL=triton.next_power_of_2(width),
        num_warps=min(4, triton.next_power_of_2(triton.cdiv(width, 256))), **early(x.device),
    )  # fmt: skip
    return out
