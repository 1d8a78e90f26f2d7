"""What a step of greedy decoding does with its logits, in one pass, as a Triton kernel."""

from typing import no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Bool, Float, Int
from torch import Tensor
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from regard.attention.kernels.early import early
from regard.data.batches import END, START


@triton.jit
@no_type_check
def survey(LOGITS, words, FIRST: tl.constexpr, N: tl.constexpr):
    """Over a row: the largest logit, Σ exp(logit − largest), and the largest from FIRST on, of equals the first."""
    peak = tl.full([N], float("-inf"), tl.float32)
    largest = tl.full([N], float("-inf"), tl.float32)
    place = tl.full([N], 0, tl.int32)
    total = tl.zeros([N], tl.float32)
    for begin in range(0, words, N):
        columns = begin + tl.arange(0, N)
        logit = tl.load(LOGITS + columns, columns < words, float("-inf")).to(tl.float32)
        higher = tl.maximum(peak, logit, propagate_nan=tl.PropagateNan.ALL)
        base = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp(peak - base) + tl.exp(logit - base)
        peak = higher
        better = (logit > largest) & (columns >= FIRST)
        largest = tl.where(better, logit, largest)
        place = tl.where(better, columns, place)
    most = tl.max(peak, 0)
    base = tl.where(most == float("-inf"), 0.0, most)
    best = tl.max(largest, 0)
    chosen = tl.min(tl.where(largest == best, place, words), 0)
    return base, tl.sum(total * tl.exp(peak - base), 0), best, chosen


@triton.jit
@no_type_check
def _likeliest(
    LOGITS, AT, LIMITS, OVER, TOKENS, WRITTEN, TOPS,
    row_step, rows, words, EARLY: tl.constexpr, FIRST: tl.constexpr, STOP: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    if EARLY:
        gdc_wait()
        gdc_launch_dependents()
    base, total, best, chosen = survey(LOGITS + row.to(tl.int64) * row_step, words, FIRST, N)
    chosen = chosen.to(tl.int64)
    at = tl.load(AT)
    before = tl.load(OVER + row) != 0
    top = best - base - tl.log(total)
    tl.store(TOPS + at * rows + row, tl.where(before, 0.0, top))
    tl.store(WRITTEN + at * rows + row, chosen)
    over = before | (chosen == STOP) | (tl.load(LIMITS + row) <= at + 1)
    tl.store(OVER + row, over.to(tl.int8))
    tl.store(TOKENS + row, tl.where(over, STOP, chosen))


def likeliest(
    logits: Float[Tensor, "rows words"],
    *,
    at: Int[Tensor, " 1"],
    most: Int[Tensor, " rows"],
    over: Bool[Tensor, " rows"],
    tokens: Int[Tensor, " rows"],
    written: Int[Tensor, "capacity rows"],
    tops: Float[Tensor, "capacity rows"],
) -> None:
    """Choose the likeliest token of every row, write it and its log-probability down, and see which texts are over."""
    rows, words = logits.shape
    _likeliest[(rows,)](
        logits, at, most, over.view(torch.int8), tokens, written, tops,
        logits.stride(0), rows, words, FIRST=START + 1, STOP=END,
        N=at_once(words), num_warps=8, **early(logits.device),
    )  # fmt: skip


def at_once(words: int) -> int:
    """How many logits of a row are looked at together."""
    return min(4096, triton.next_power_of_2(words))
