"""Scores of words turned into the slopes of their loss, as a Triton kernel: a row is read once and written once."""

from typing import no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor


@triton.jit
@no_type_check
def _row(SCORES, TARGETS, FOUND, stride, count, smoothing, VOCABULARY: tl.constexpr, FULL: tl.constexpr):
    """One token."""
    row = tl.program_id(0).to(tl.int64)
    target = tl.load(TARGETS + row)
    columns = tl.arange(0, FULL)
    inside = columns < VOCABULARY
    # A word that there is not makes the loss NaN; models refuse it before this.
    place = tl.minimum(tl.maximum(target, 0), VOCABULARY - 1)
    aimed = tl.load(SCORES + row * stride + place).to(tl.float32)
    aimed = tl.where(target < VOCABULARY, aimed, float("nan"))
    score = tl.load(SCORES + row * stride + columns, inside, float("-inf")).to(tl.float32)
    top = tl.max(score)
    weight = tl.exp(score - top)
    total = tl.sum(weight)
    lse = top + tl.log(total)
    real = target >= 0
    nll = lse - aimed
    even = lse - tl.sum(tl.where(inside, score, 0.0)) / VOCABULARY
    # Of equals, which 16 bits have many of, the first.
    best = tl.min(tl.where(score >= top, columns, VOCABULARY))
    right = tl.where(best == target, 1.0, 0.0)
    tl.store(FOUND + row, tl.where(real, (1.0 - smoothing) * nll + smoothing * even, 0.0))
    tl.store(FOUND + count + row, tl.where(real, nll, 0.0))
    tl.store(FOUND + 2 * count + row, tl.where(real, right, 0.0))
    slope = weight / total - smoothing / VOCABULARY - tl.where(columns == target, 1.0 - smoothing, 0.0)
    tl.store(SCORES + row * stride + columns, tl.where(real, slope, 0.0).to(SCORES.dtype.element_ty), inside)


def turn_into_slopes(
    scores: Float[Tensor, "n vocabulary"], targets: Int[Tensor, " n"], smoothing: float
) -> Float[Tensor, " 3"]:
    """In place. The sums of loss, nll and right answers come back; a target less than 0 counts as nothing."""
    count, vocabulary = scores.shape
    found = torch.zeros(3, count, dtype=torch.float32, device=scores.device)
    full = triton.next_power_of_2(vocabulary)
    warps = 4 if full <= 2048 else 8 if full <= 16384 else 16
    if count:
        _row[(count,)](
            scores,
            targets,
            found,
            scores.stride(0),
            count,
            smoothing,
            VOCABULARY=vocabulary,
            FULL=full,
            num_warps=warps,
        )
    return found.sum(1)
