"""The few heaviest keys of each query, without a loop that somebody must wait in.

The n heaviest keys lie in those n bunches of keys whose largest scores are the largest. A lane of a tensor core holds
one bunch of every tile, or two, so a tile costs a maximum or two and one place in a list of the lane. Two bunches have
one place, that of the better: if it is not among the n best, neither is the other. Only the bunches that are left at
the end are gone through key by key.
"""

from typing import no_type_check

import triton
import triton.language as tl

from regard.sight.kernels.rows import fold
from regard.sight.kernels.score_tiles import (
    HIDDEN,
    biased,
    bring,
    exact,
    laned,
    limits,
    meeting,
    place,
    reach,
    stretch,
    turn,
)


@triton.jit
@no_type_check
def halves(scores):
    """The largest of each half of what every lane has of a tile."""
    tall: tl.constexpr = scores.shape[0]
    runs: tl.constexpr = scores.shape[1]
    lanes: tl.constexpr = scores.shape[2]
    tops = tl.max(tl.reshape(scores, (tall, 2, runs // 2, lanes, 2)), 2)
    half = tl.arange(0, 2)[None, :, None, None]
    # Pairs come last, since the lists are laid out as what is left before them.
    first = tl.max(tl.max(tl.where(half == 0, tops, HIDDEN), 1), 2)
    second = tl.max(tl.max(tl.where(half == 1, tops, HIDDEN), 1), 2)
    return first, second


@triton.jit
@no_type_check
def remember(best, where, value, start, SLOTS: tl.constexpr):
    """Put a value in the place of the least of its lane, if it is larger. Values carry their place in their last bits.

    Returns the lists and where it was put.
    """
    least = tl.min(best, 2)
    bits = least.to(tl.int32, bitcast=True) & (SLOTS - 1)
    value = ((value.to(tl.int32, bitcast=True) & ~(SLOTS - 1)) | bits).to(tl.float32, bitcast=True)
    put = (best == least[:, :, None]) & (value > least)[:, :, None]
    return tl.where(put, value[:, :, None], best), tl.where(put, start, where), put


@triton.jit
@no_type_check
def gather(
    q, query, key, key_descriptor, batch, head, kv_head, block, position, nearest, farthest, asking, asked,
    start, stop, queries, keys, stride_qb, stride_qh, stride_qn, stride_kb, stride_kh, stride_kn,
    scale, slope, move, m, l, t, best, other, where,
    TALL: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, ROOM: tl.constexpr, EXACT: tl.constexpr,
    SLOPED: tl.constexpr, PACKED: tl.constexpr, MASKED: tl.constexpr, SLOTS: tl.constexpr, LANES: tl.constexpr,
    PARTS: tl.constexpr, KNOWN: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Go over the keys from `start` to `stop`."""
    for begin in tl.range(start, stop, SIZE, num_stages=STAGES):
        begin = tl.multiple_of(begin, SIZE)
        if EXACT:
            scores = exact(
                query, key, batch, head, kv_head, block * TALL, begin, queries, keys,
                stride_qb, stride_qh, stride_qn, stride_kb, stride_kh, stride_kn, TALL, SIZE, WIDTH, ROOM,
            )  # fmt: skip
        else:
            k = bring(
                key, key_descriptor, batch, kv_head, begin, keys, stride_kb, stride_kh, stride_kn, SIZE, WIDTH, ROOM
            )  # fmt: skip
            scores = tl.dot(q, tl.trans(k))
        column = begin + tl.arange(0, SIZE)
        rest = scale
        if MASKED or SLOPED:
            scores = biased(scores, scale, slope, position[:, None] + move, column[None, :], SLOPED)
            rest = 1.0
        if MASKED:
            theirs = column  # never read when there are no documents
            if PACKED:
                theirs = tl.load(asked + column, mask=column < keys, other=-1)
            scores = tl.where(meeting(column, nearest, farthest, asking, theirs, PACKED), scores, HIDDEN)
        scores = laned(scores, LANES)
        if PARTS == 2:
            first, second = halves(scores)
            tops = tl.maximum(first, second)
            at = (begin + (second > first).to(tl.int32))[:, :, None]  # odd if the second is the better
        else:
            tops = tl.max(tl.max(scores, 1), 2)
            at = begin
        if not KNOWN:
            m, l, t = fold(scores, tops, rest, m, l, t)
        best, where, put = remember(best, where, tops * rest, at, SLOTS)
        if PARTS == 2:
            other = tl.where(put, (tl.minimum(first, second) * rest)[:, :, None], other)
    return m, l, t, best, other, where


@triton.jit(do_not_specialize=["beside"])
@no_type_check
def bunches_kernel(
    query, key, key_descriptor, ranges, asking, asked, spans, slopes,
    level, entropy, peak, bunch,
    queries, keys, heads, groups, share, beside,
    stride_qb, stride_qh, stride_qn, stride_kb, stride_kh, stride_kn, scale, move, low, high,
    TALL: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, ROOM: tl.constexpr, EXACT: tl.constexpr,
    SLOPED: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr, PACKED: tl.constexpr, SLOTS: tl.constexpr,
    LANES: tl.constexpr, PARTS: tl.constexpr, KNOWN: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """The best bunches of TALL queries of one head and, where the level is not known, everything else said of them."""
    blocks = tl.cdiv(queries, TALL)
    entry, block = turn(blocks, beside)
    if HIGH:
        block = blocks - 1 - block  # the longest first, so that the chip is busy to the end
    batch, head, kv_head = place(entry, heads, groups)
    row = block * TALL + tl.arange(0, TALL)
    real = row < queries
    first_query, last_query, first_key, last_key = limits(ranges, entry, queries, keys)
    lowest = tl.maximum(block * TALL, first_query)
    highest = tl.minimum(block * TALL + TALL, last_query) - 1
    mine = row  # never read when there are no documents
    theirs = asked
    span = spans
    if PACKED:
        mine = tl.load(asking + (entry // share).to(tl.int64) * queries + row, mask=real, other=-1)
        theirs = asked + (entry // share).to(tl.int64) * keys
        span = spans + ((entry // share) * blocks + block) * 2
    start, open_start, open_stop, stop = stretch(
        lowest, highest, first_key, last_key, low, high, span, SIZE, LOW, HIGH, PACKED
    )
    nearest, farthest = reach(row, first_key, last_key, low, high, LOW, HIGH)
    slope = 0.0
    if SLOPED:
        slope = tl.load(slopes + entry)
    q = 0  # never read where products are exact
    if not EXACT:
        q = bring(
            query, None, batch, head, block * TALL, queries, stride_qb, stride_qh, stride_qn, TALL, WIDTH, ROOM
        )  # fmt: skip
    m = tl.full([TALL, LANES], HIDDEN, tl.float32)
    l = tl.zeros([TALL, LANES], tl.float32)
    t = tl.zeros([TALL, LANES], tl.float32)
    slots = tl.arange(0, SLOTS)[None, None, :]
    nothing = tl.full([TALL, LANES, SLOTS], HIDDEN, tl.float32).to(tl.int32, bitcast=True)
    best = ((nothing & ~(SLOTS - 1)) | slots).to(tl.float32, bitcast=True)
    other = tl.full([TALL, LANES, SLOTS], HIDDEN, tl.float32)
    where = tl.full([TALL, LANES, SLOTS], -1, tl.int32)
    for part in tl.static_range(3):
        if part == 0:
            begin, end = start, open_start
        elif part == 1:
            begin, end = open_start, open_stop
        else:
            begin, end = open_stop, stop
        m, l, t, best, other, where = gather(
            q, query, key, key_descriptor, batch, head, kv_head, block, row, nearest, farthest, mine, theirs,
            begin, end, queries, keys, stride_qb, stride_qh, stride_qn, stride_kb, stride_kh, stride_kn,
            scale, slope, move, m, l, t, best, other, where,
            TALL, SIZE, WIDTH, ROOM, EXACT, SLOPED, PACKED, part != 1, SLOTS, LANES, PARTS, KNOWN, STAGES,
        )  # fmt: skip
    at = entry.to(tl.int64) * queries + row
    if not KNOWN:
        largest = tl.max(m, 1)
        shift = m - largest[:, None]  # the lanes meet
        t = tl.sum(tl.exp2(shift) * (t + shift * l), 1)
        l = tl.sum(tl.exp2(shift) * l, 1)
        looking = ((largest > 0.5 * HIDDEN) | (l != l)) & (row >= first_query) & (row < last_query)
        total = tl.where(looking, l, 1.0)
        tl.store(level + at, tl.where(looking, largest + tl.log2(total), -float("inf")), mask=real)
        spread = 0.6931471805599453 * (tl.log2(total) - t / total)
        tl.store(entropy + at, tl.where(looking, spread, 0.0), mask=real)
        tl.store(peak + at, tl.where(looking, 1.0 / total, 0.0), mask=real)
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
    for slot in range(SLOTS):  # the best of all lanes
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
    query, key, ranges, asking, asked, slopes, level, bunch, top_keys, top_weights,
    queries, keys, heads, groups, share,
    stride_qb, stride_qh, stride_qn, stride_kb, stride_kh, stride_kn, scale, move, low, high,
    TALL: tl.constexpr, BUNCH: tl.constexpr, WIDTH: tl.constexpr, ROOM: tl.constexpr, SLOPED: tl.constexpr,
    LOW: tl.constexpr, HIGH: tl.constexpr, PACKED: tl.constexpr, TOP: tl.constexpr, SLOTS: tl.constexpr,
    LANES: tl.constexpr,
):  # fmt: skip
    """The heaviest keys of the bunches that were left of TALL queries."""
    blocks = tl.cdiv(queries, TALL)
    entry = tl.program_id(0) // blocks
    block = tl.program_id(0) % blocks
    batch, head, kv_head = place(entry, heads, groups)
    row = block * TALL + tl.arange(0, TALL)
    real = row < queries
    at = entry.to(tl.int64) * queries + row
    first_query, last_query, first_key, last_key = limits(ranges, entry, queries, keys)
    nearest, farthest = reach(row, first_key, last_key, low, high, LOW, HIGH)
    here = tl.load(level + at, mask=real, other=-float("inf"))
    looking = (here != -float("inf")) & (row >= first_query) & (row < last_query)
    slope = 0.0
    if SLOPED:
        slope = tl.load(slopes + entry)
    keys_here = key + batch.to(tl.int64) * stride_kb + kv_head.to(tl.int64) * stride_kh
    COUNT: tl.constexpr = SLOTS * BUNCH
    STEP: tl.constexpr = ROOM if ROOM * COUNT < 2048 else 2048 // COUNT  # numbers of a key at a time
    candidate = tl.arange(0, COUNT)
    within = candidate % BUNCH
    within = (within // 2) * (2 * LANES) + within % 2  # as a tensor core deals out columns
    first = tl.load(bunch + at[:, None] * SLOTS + (candidate // BUNCH)[None, :], mask=real[:, None], other=-1)
    column = first + within[None, :]
    met = (column >= nearest[:, None]) & (column < farthest[:, None]) & (first >= 0) & looking[:, None]
    if PACKED:
        of_batch = (entry // share).to(tl.int64)
        mine = tl.load(asking + of_batch * queries + row, mask=real, other=-1)
        theirs = tl.load(asked + of_batch * keys + column, mask=met, other=-1)
        met = met & (theirs == mine[:, None]) & (theirs >= 0)
    products = tl.zeros([TALL, COUNT, STEP], tl.float32)
    for begin in tl.static_range(0, ROOM, STEP):
        of_query = bring(
            query + begin, None, batch, head, block * TALL, queries, stride_qb, stride_qh, stride_qn,
            TALL, WIDTH - begin, STEP,
        )  # fmt: skip
        parts = begin + tl.arange(0, STEP)[None, None, :]
        at_keys = keys_here + column.to(tl.int64)[:, :, None] * stride_kn + parts
        of_key = tl.load(at_keys, mask=met[:, :, None] & (parts < WIDTH), other=0.0)
        products += of_query.to(tl.float32)[:, None, :] * of_key.to(tl.float32)
    scores = biased(tl.sum(products, 2), scale, slope, row[:, None] + move, column, SLOPED)
    scores = tl.where(met, scores, HIDDEN)
    for rank in range(TOP):
        greatest = tl.max(scores, 1)
        found = tl.min(tl.where(scores == greatest[:, None], column, 2147483647), 1)
        heavy = looking & (greatest > 0.5 * HIDDEN)
        weight = tl.where(heavy, tl.exp2(greatest - tl.where(looking, here, 0.0)), 0.0)
        tl.store(top_weights + at * TOP + rank, weight, mask=real)
        tl.store(top_keys + at * TOP + rank, tl.where(weight > 0, found, -1).to(tl.int64), mask=real)
        scores = tl.where(column == found[:, None], 2 * HIDDEN, scores)
