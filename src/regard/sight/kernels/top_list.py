"""Lists of 9 to 64 top keys, kept while a kernel loops over the keys: a loop inserts what is better."""

from typing import no_type_check

import triton
import triton.language as tl

from regard.sight.kernels.score_tiles import HIDDEN, biased, load_tile


@triton.jit
@no_type_check
def marked(scores, MARK: tl.constexpr):
    """Scores that carry their number within the lane in their last bits: about one part in 2^20 is lost."""
    runs = tl.arange(0, scores.shape[1])[None, :, None, None]
    pairs = tl.arange(0, 2)[None, None, None, :]
    bits = scores.to(tl.int32, bitcast=True)
    return ((bits & ~MARK) | (runs * 2 + pairs)).to(tl.float32, bitcast=True)


@triton.jit
@no_type_check
def insert(scores, tops, start, best, where, LANES: tl.constexpr, SLOTS: tl.constexpr, MARK: tl.constexpr):
    """Put into the lists of the best so far what is better. Ends when no row has anything better left in the tile."""
    lanes = tl.arange(0, LANES)[None, :]
    slots = tl.arange(0, SLOTS)[None, :]
    largest = tl.max(tops, 1)
    least = tl.min(best, 1)
    while tl.max((largest > least).to(tl.int32), 0) > 0:
        lane = tl.min(tl.where(tops == largest[:, None], lanes, LANES), 1)
        number = largest.to(tl.int32, bitcast=True) & MARK
        column = (number // 2) * (2 * LANES) + lane * 2 + number % 2
        slot = tl.min(tl.where(best == least[:, None], slots, SLOTS), 1)
        put = (slots == slot[:, None]) & (largest > least)[:, None]
        best = tl.where(put, largest[:, None], best)
        where = tl.where(put, (start + column)[:, None], where)
        taken = tl.where(lanes == lane[:, None], largest[:, None], float("inf"))
        scores = tl.where(scores == taken[:, None, :, None], HIDDEN, scores)
        tops = tl.max(tl.max(scores, 1), 2)
        largest = tl.max(tops, 1)
        least = tl.min(best, 1)
    return best, where


@triton.jit
@no_type_check
def store_list(
    queries, keys, scoring, block, looking, level, best, where, peak, top_keys, top_weights, at,
    TOP: tl.constexpr, SLOTS: tl.constexpr, TALL: tl.constexpr, WIDTH: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    """Sort and store the lists, and the peak. Scores are computed again, since some of their bits carried a number."""
    slots = tl.arange(0, SLOTS)[None, :]
    keys_here = (
        keys.pointer
        + block.batch.to(tl.int64) * keys.stride_batch
        + block.other_head.to(tl.int64) * keys.stride_head
    )
    for slot in range(SLOTS):
        chosen = tl.max(tl.where(slots == slot, where, -1), 1)
        found = (chosen >= 0) & looking
        score = tl.zeros([TALL], tl.float32)
        for first in range(0, PADDED, 16):
            of_query = load_tile(
                queries, None, block.batch, block.head, block.index * TALL, TALL, WIDTH - first, 16, first
            )  # fmt: skip
            parts = first + tl.arange(0, 16)[None, :]
            at_keys = keys_here + chosen.to(tl.int64)[:, None] * keys.stride + parts
            of_key = tl.load(at_keys, mask=found[:, None] & (parts < WIDTH), other=0.0)
            score += tl.sum(of_query.to(tl.float32) * of_key.to(tl.float32), 1)
        score = biased(score, scoring, block.slope, block.position, chosen)
        best = tl.where(slots == slot, tl.where(found, score, HIDDEN)[:, None], best)
    for rank in range(TOP):
        largest = tl.max(best, 1)
        chosen = tl.min(tl.where((best == largest[:, None]) & (where >= 0), where, 2147483647), 1)
        found = looking & (largest > 0.5 * HIDDEN)
        weight = tl.where(found, tl.exp2(largest - tl.where(looking, level, 0.0)), 0.0)
        tl.store(peak + at, weight, mask=block.real & (rank == 0))
        tl.store(top_weights + at * TOP + rank, weight, mask=block.real)
        tl.store(top_keys + at * TOP + rank, tl.where(weight > 0, chosen, -1).to(tl.int64), mask=block.real)
        best = tl.where((where == chosen[:, None]) & (best == largest[:, None]), 2 * HIDDEN, best)
