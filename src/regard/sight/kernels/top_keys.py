"""The top keys of each query, found while a kernel loops over the keys.

9 to 64 keys are kept in a list per query, into which a loop inserts what is better. Up to 8 keys need no such loop,
which would wait for the slowest row: the n top keys are in those n bunches of keys whose largest scores are the largest.
A lane of a tensor core holds one bunch of every tile, or two, so a tile costs a maximum or two and one slot in a list of
the lane. Two bunches share one slot, that of the better: if it is not among the n best, neither is the other. Only the
bunches that are left at the end are searched key by key, by the sift kernel.
"""

from typing import no_type_check

import triton
import triton.language as tl

from regard.sight.kernels.program_blocks import Scoring, Side, heads_of, limits, reach
from regard.sight.kernels.score_tiles import HIDDEN, biased, load_tile


@triton.jit
@no_type_check
def halves(scores):
    """The largest of each half of what every lane has of a tile."""
    tall: tl.constexpr = scores.shape[0]
    runs: tl.constexpr = scores.shape[1]
    lanes: tl.constexpr = scores.shape[2]
    tops = tl.max(tl.reshape(scores, (tall, 2, runs // 2, lanes, 2)), 2)
    half = tl.arange(0, 2)[None, :, None, None]
    # The maxima over lanes come last, since the lists have the layout of what is left before them.
    first = tl.max(tl.max(tl.where(half == 0, tops, HIDDEN), 1), 2)
    second = tl.max(tl.max(tl.where(half == 1, tops, HIDDEN), 1), 2)
    return first, second


@triton.jit
@no_type_check
def no_bunches(TALL: tl.constexpr, LANES: tl.constexpr, SLOTS: tl.constexpr):
    """Empty lists: the best score of each bunch, that of the other bunch of its slot, and where it begins."""
    slots = tl.arange(0, SLOTS)[None, None, :]
    nothing = tl.full([TALL, LANES, SLOTS], HIDDEN, tl.float32).to(tl.int32, bitcast=True)
    best = ((nothing & ~(SLOTS - 1)) | slots).to(tl.float32, bitcast=True)
    other = tl.full([TALL, LANES, SLOTS], HIDDEN, tl.float32)
    where = tl.full([TALL, LANES, SLOTS], -1, tl.int32)
    return best, other, where


@triton.jit
@no_type_check
def remember(best, where, value, start, SLOTS: tl.constexpr):
    """Replace the least of each lane by a value, if it is larger. Values carry their slot in their last bits.

    Returns the lists, and which slots were replaced.
    """
    least = tl.min(best, 2)
    bits = least.to(tl.int32, bitcast=True) & (SLOTS - 1)
    value = ((value.to(tl.int32, bitcast=True) & ~(SLOTS - 1)) | bits).to(tl.float32, bitcast=True)
    put = (best == least[:, :, None]) & (value > least)[:, :, None]
    return tl.where(put, value[:, :, None], best), tl.where(put, start, where), put


@triton.jit
@no_type_check
def store_bunches(
    bunch, at, real, best, other, where,
    LANES: tl.constexpr, SLOTS: tl.constexpr, PARTS: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Store the first key of each of the SLOTS best bunches of all lanes."""
    TALL: tl.constexpr = best.shape[0]
    lane = tl.zeros([TALL, LANES, SLOTS], tl.int32) + 2 * tl.arange(0, LANES)[None, :, None]
    if PARTS == 2:
        first = (where & ~1) + (where & 1) * (SIZE // 2) + lane
        second = (where & ~1) + (1 - (where & 1)) * (SIZE // 2) + lane
        second = tl.reshape(tl.where(where >= 0, second, -1), (TALL, LANES * SLOTS))
        other = tl.reshape(other, (TALL, LANES * SLOTS))
    else:
        first = where + lane
    first = tl.reshape(tl.where(where >= 0, first, -1), (TALL, LANES * SLOTS))
    best = tl.reshape(best, (TALL, LANES * SLOTS))
    for slot in range(SLOTS):
        if PARTS == 2:
            greatest = tl.max(tl.maximum(best, other), 1)[:, None]
            chosen = tl.maximum(
                tl.where(best == greatest, first, -1), tl.where(other == greatest, second, -1)
            )
        else:
            greatest = tl.max(best, 1)[:, None]
            chosen = tl.where(best == greatest, first, -1)
        chosen = tl.max(chosen, 1)
        tl.store(bunch + at * SLOTS + slot, chosen, mask=real)
        best = tl.where(first == chosen[:, None], 2 * HIDDEN, best)
        if PARTS == 2:
            other = tl.where(second == chosen[:, None], 2 * HIDDEN, other)


@triton.jit
@no_type_check
def sift_kernel(
    query, key, query_descriptor, key_descriptor, ranges, query_ids, key_ids, spans, slopes, query_count, key_count,
    heads, groups, share, stride_qb, stride_qh, stride_qn, stride_kb, stride_kh, stride_kn, scale, shift, low, high,
    level, bunch, top_keys, top_weights,
    TALL: tl.constexpr, BUNCH: tl.constexpr, WIDTH: tl.constexpr, PADDED: tl.constexpr, TOP: tl.constexpr,
    SLOTS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """The top keys among the bunches that were left of TALL queries."""
    queries = Side(query, query_descriptor, stride_qb, stride_qh, stride_qn, query_count, query_ids)
    keys = Side(key, key_descriptor, stride_kb, stride_kh, stride_kn, key_count, key_ids)
    scoring = Scoring(ranges, spans, slopes, heads, groups, share, scale, shift, low, high)
    blocks = tl.cdiv(query_count, TALL)
    entry = tl.program_id(0) // blocks
    block = tl.program_id(0) % blocks
    batch, head, kv_head = heads_of(entry, scoring, False)
    row = block * TALL + tl.arange(0, TALL)
    real = row < query_count
    at = entry.to(tl.int64) * query_count + row
    first_query, last_query, first_key, last_key = limits(entry, queries, keys, scoring, False)
    nearest, farthest = reach(row, first_key, last_key, low, high)
    here = tl.load(level + at, mask=real, other=-float("inf"))
    looking = (here != -float("inf")) & (row >= first_query) & (row < last_query)
    slope = 0.0  # not read without slopes
    if slopes is not None:
        slope = tl.load(slopes + entry)
    keys_here = key + batch.to(tl.int64) * stride_kb + kv_head.to(tl.int64) * stride_kh
    COUNT: tl.constexpr = SLOTS * BUNCH
    STEP: tl.constexpr = PADDED if PADDED * COUNT < 2048 else 2048 // COUNT  # numbers of a key at a time
    candidate = tl.arange(0, COUNT)
    within = candidate % BUNCH
    within = (within // 2) * (2 * LANES) + within % 2  # as a tensor core deals out columns
    first = tl.load(bunch + at[:, None] * SLOTS + (candidate // BUNCH)[None, :], mask=real[:, None], other=-1)
    column = first + within[None, :]
    met = (column >= nearest[:, None]) & (column < farthest[:, None]) & (first >= 0) & looking[:, None]
    if query_ids is not None:
        documents = (entry // share).to(tl.int64)
        mine = tl.load(query_ids + documents * query_count + row, mask=real, other=-1)
        theirs = tl.load(key_ids + documents * key_count + column, mask=met, other=-1)
        met = met & (theirs == mine[:, None]) & (theirs >= 0)
    products = tl.zeros([TALL, COUNT, STEP], tl.float32)
    for begin in tl.static_range(0, PADDED, STEP):
        of_query = load_tile(queries, None, batch, head, block * TALL, TALL, WIDTH - begin, STEP, begin)
        parts = begin + tl.arange(0, STEP)[None, None, :]
        at_keys = keys_here + column.to(tl.int64)[:, :, None] * stride_kn + parts
        of_key = tl.load(at_keys, mask=met[:, :, None] & (parts < WIDTH), other=0.0)
        products += of_query.to(tl.float32)[:, None, :] * of_key.to(tl.float32)
    scores = biased(tl.sum(products, 2), scoring, slope, row[:, None], column)
    scores = tl.where(met, scores, HIDDEN)
    for rank in range(TOP):
        greatest = tl.max(scores, 1)
        found = tl.min(tl.where(scores == greatest[:, None], column, 2147483647), 1)
        heavy = looking & (greatest > 0.5 * HIDDEN)
        weight = tl.where(heavy, tl.exp2(greatest - tl.where(looking, here, 0.0)), 0.0)
        tl.store(top_weights + at * TOP + rank, weight, mask=real)
        tl.store(top_keys + at * TOP + rank, tl.where(weight > 0, found, -1).to(tl.int64), mask=real)
        scores = tl.where(column == found[:, None], 2 * HIDDEN, scores)


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
