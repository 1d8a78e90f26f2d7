"""A program owns some queries and goes over their keys: log-sum-exp, entropy, peak, and the heaviest keys.

With x = score − m for the largest score m so far, l = Σ 2^x and t = Σ 2^x · x are all that entropy needs:
log l − t / l. When m grows by δ, both are brought to the new m: l ← 2^−δ l, t ← 2^−δ (t − δ l). Where the log-sum-exp
is known, x = score − level leaves nothing to bring along: entropy is −t, and m serves the peak alone.
"""

from typing import no_type_check

import triton
import triton.language as tl

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
    said,
    stretch,
    summed,
    turn,
)


@triton.jit
@no_type_check
def fold(scores, largest, scale, m, l, t):
    """Learn from a tile of scores / scale, of which `largest` are the largest."""
    new = tl.maximum(m, largest * scale)
    below = scores * scale - new[:, None, :, None]  # one operation, a fused multiply-add
    parts = tl.exp2(below)
    shift = m - new
    shrink = tl.exp2(shift)
    t = shrink * (t + shift * l) + summed(parts * below)
    l = shrink * l + summed(parts)
    return new, l, t


@triton.jit
@no_type_check
def fold_known(scores, largest, scale, known, m, t):
    """Learn from a tile of scores / scale, of which `largest` are the largest, below a level that is known."""
    below = scores * scale - known[:, None, None, None]  # one operation, a fused multiply-add
    return tl.maximum(m, largest * scale), t + summed(tl.exp2(below) * below)


@triton.jit
@no_type_check
def marked(scores, MARK: tl.constexpr):
    """Scores that carry their number within the lane in their last bits: one in two to the twenty, or so, is lost."""
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
def look(
    q, query, key, key_descriptor, batch, head, kv_head, block, position, nearest, farthest, asking, asked,
    start, stop, queries, keys, stride_qb, stride_qh, stride_qn, stride_kb, stride_kh, stride_kn,
    scale, slope, move, known, m, l, t, best, where,
    TALL: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, ROOM: tl.constexpr, EXACT: tl.constexpr,
    SLOPED: tl.constexpr, PACKED: tl.constexpr, MASKED: tl.constexpr, TOP: tl.constexpr, SLOTS: tl.constexpr, LANES: tl.constexpr,
    KNOWN: tl.constexpr, STAGES: tl.constexpr,
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
                key,
                key_descriptor,
                batch,
                kv_head,
                begin,
                keys,
                stride_kb,
                stride_kh,
                stride_kn,
                SIZE,
                WIDTH,
                ROOM,
            )
            scores = tl.dot(q, tl.trans(k))
        column = begin + tl.arange(0, SIZE)
        rest = scale
        if MASKED or SLOPED or TOP > 0:
            scores = biased(scores, scale, slope, position[:, None] + move, column[None, :], SLOPED)
            rest = 1.0
        if MASKED:
            theirs = column  # never read when there are no documents
            if PACKED:
                theirs = tl.load(asked + column, mask=column < keys, other=-1)
            scores = tl.where(meeting(column, nearest, farthest, asking, theirs, PACKED), scores, HIDDEN)
        scores = laned(scores, LANES)
        if TOP > 0:
            numbered = marked(scores, SIZE // LANES - 1)
            tops = tl.max(tl.max(numbered, 1), 2)
            m, l, t = fold(scores, tops, rest, m, l, t)
            best, where = insert(numbered, tops, begin, best, where, LANES, SLOTS, SIZE // LANES - 1)
        elif KNOWN:
            m, t = fold_known(scores, tl.max(tl.max(scores, 1), 2), rest, known, m, t)
        else:
            m, l, t = fold(scores, tl.max(tl.max(scores, 1), 2), rest, m, l, t)
    return m, l, t, best, where


@triton.jit(do_not_specialize=["beside"])
@no_type_check
def rows_kernel(
    query, key, key_descriptor, positions, ranges, asking, asked, spans, slopes,
    level, entropy, peak, top_keys, top_weights,
    queries, keys, heads, groups, share, beside,
    stride_qb, stride_qh, stride_qn, stride_kb, stride_kh, stride_kn, scale, move, low, high,
    TALL: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, ROOM: tl.constexpr, EXACT: tl.constexpr,
    SLOPED: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr, PACKED: tl.constexpr, TOP: tl.constexpr,
    SLOTS: tl.constexpr, LANES: tl.constexpr, KNOWN: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Everything said of TALL queries of one head; of a list of the heaviest only where the level is not KNOWN."""
    blocks = tl.cdiv(queries, TALL)
    entry, block = turn(blocks, beside)
    if HIGH:
        block = blocks - 1 - block  # the longest first, so that the chip is busy to the end
    batch, head, kv_head = place(entry, heads, groups)
    row = block * TALL + tl.arange(0, TALL)
    real = row < queries
    first_query, last_query, first_key, last_key = limits(ranges, entry, queries, keys)
    position = row
    lowest = tl.maximum(block * TALL, first_query)
    highest = tl.minimum(block * TALL + TALL, last_query) - 1
    if positions is not None:
        position = tl.load(positions + row, mask=real, other=-1)
        inside = (position >= first_query) & (position < last_query)
        lowest = tl.min(tl.where(inside, position, last_query), 0)
        highest = tl.max(tl.where(inside, position, -1), 0)
    mine = position  # never read when there are no documents
    theirs = asked
    span = spans
    if PACKED:
        mine = tl.load(asking + (entry // share).to(tl.int64) * queries + row, mask=real, other=-1)
        theirs = asked + (entry // share).to(tl.int64) * keys
        span = spans + ((entry // share) * blocks + block) * 2
    start, open_start, open_stop, stop = stretch(
        lowest, highest, first_key, last_key, low, high, span, SIZE, LOW, HIGH, PACKED
    )
    nearest, farthest = reach(position, first_key, last_key, low, high, LOW, HIGH)
    slope = 0.0
    if SLOPED:
        slope = tl.load(slopes + entry)
    q = 0  # never read where products are exact
    if not EXACT:
        q = bring(
            query,
            None,
            batch,
            head,
            block * TALL,
            queries,
            stride_qb,
            stride_qh,
            stride_qn,
            TALL,
            WIDTH,
            ROOM,
        )
    at = entry.to(tl.int64) * queries + row
    known = slope  # never read when it is not
    if KNOWN:
        known = tl.load(level + at, mask=real, other=0.0)
        known = tl.where(known == -float("inf"), 0.0, known)
    m = tl.full([TALL, LANES], HIDDEN, tl.float32)
    l = tl.zeros([TALL, LANES], tl.float32)
    t = tl.zeros([TALL, LANES], tl.float32)
    best = tl.full([TALL, SLOTS], 0.5 * HIDDEN, tl.float32)
    where = tl.full([TALL, SLOTS], -1, tl.int32)
    for part in tl.static_range(3):
        # Before the open keys, the open keys, and after them: only in the open part may everybody look at everything.
        if part == 0:
            begin, end = start, open_start
        elif part == 1:
            begin, end = open_start, open_stop
        else:
            begin, end = open_stop, stop
        m, l, t, best, where = look(
            q, query, key, key_descriptor, batch, head, kv_head, block, position, nearest, farthest, mine, theirs,
            begin, end, queries, keys, stride_qb, stride_qh, stride_qn, stride_kb, stride_kh, stride_kn,
            scale, slope, move, known, m, l, t, best, where,
            TALL, SIZE, WIDTH, ROOM, EXACT, SLOPED, PACKED, part != 1, TOP, SLOTS, LANES, KNOWN, STAGES,
        )  # fmt: skip
    counts = (position >= first_query) & (position < last_query)
    largest = tl.max(m, 1)
    if KNOWN:
        here = tl.load(level + at, mask=real, other=0.0)
        spread, heaviest = said(here, tl.exp2(largest - known), tl.sum(t, 1), counts)
        tl.store(entropy + at, spread, mask=real)
        tl.store(peak + at, heaviest, mask=real)
        return
    shift = m - largest[:, None]  # the lanes meet
    t = tl.sum(tl.exp2(shift) * (t + shift * l), 1)
    l = tl.sum(tl.exp2(shift) * l, 1)
    looking = ((largest > 0.5 * HIDDEN) | (l != l)) & counts
    total = tl.where(looking, l, 1.0)
    here = tl.where(looking, largest + tl.log2(total), -float("inf"))
    tl.store(level + at, here, mask=real)
    tl.store(
        entropy + at, tl.where(looking, 0.6931471805599453 * (tl.log2(total) - t / total), 0.0), mask=real
    )
    if TOP == 0:
        tl.store(peak + at, tl.where(looking, 1.0 / total, 0.0), mask=real)
    else:
        slots = tl.arange(0, SLOTS)[None, :]
        keys_here = key + batch.to(tl.int64) * stride_kb + kv_head.to(tl.int64) * stride_kh
        for slot in range(SLOTS):  # the bits that carried a number were the score's: it is made once more
            chosen = tl.max(tl.where(slots == slot, where, -1), 1)
            found = (chosen >= 0) & looking
            score = tl.zeros([TALL], tl.float32)
            for first in range(0, ROOM, 16):
                of_query = bring(
                    query + first, None, batch, head, block * TALL, queries, stride_qb, stride_qh, stride_qn,
                    TALL, WIDTH - first, 16,
                )  # fmt: skip
                parts = first + tl.arange(0, 16)[None, :]
                at_keys = keys_here + chosen.to(tl.int64)[:, None] * stride_kn + parts
                of_key = tl.load(at_keys, mask=found[:, None] & (parts < WIDTH), other=0.0)
                score += tl.sum(of_query.to(tl.float32) * of_key.to(tl.float32), 1)
            score = biased(score, scale, slope, position + move, chosen, SLOPED)
            best = tl.where(slots == slot, tl.where(found, score, HIDDEN)[:, None], best)
        for rank in range(TOP):
            largest = tl.max(best, 1)
            chosen = tl.min(tl.where((best == largest[:, None]) & (where >= 0), where, 2147483647), 1)
            found = looking & (largest > 0.5 * HIDDEN)
            weight = tl.where(found, tl.exp2(largest - tl.where(looking, here, 0.0)), 0.0)
            tl.store(peak + at, weight, mask=real & (rank == 0))
            tl.store(top_weights + at * TOP + rank, weight, mask=real)
            tl.store(top_keys + at * TOP + rank, tl.where(weight > 0, chosen, -1).to(tl.int64), mask=real)
            best = tl.where((where == chosen[:, None]) & (best == largest[:, None]), 2 * HIDDEN, best)
