"""Everything in one pass, when the log-sum-exp of every query is known: entropy, peak, mass received, and a map.

A program owns some queries and goes over their keys. Tiles lie on their side, keys down and queries across, since a
thread of a tensor core then holds a few keys of many queries: what a key gets is summed almost within the thread.
With x = score − level, entropy is −Σ 2^x · x, and no sum of parts is needed.

Masses of one key come from many programs. They are added as whole numbers of 2^−n, whose sum has the same bits in any
order; the highest bit says that a NaN came by.
"""

from typing import no_type_check

import triton
import triton.language as tl

from regard.sight.kernels.score_tiles import (
    HIDDEN,
    biased,
    bring,
    limits,
    meeting,
    place,
    reach,
    said,
    stretch,
    turn,
)


@triton.jit
@no_type_check
def apart(tile, DOWN: tl.constexpr):
    """The two or four numbers that a thread holds of each of its queries, as tensors [warp, lane, query]."""
    size: tl.constexpr = tile.shape[0]
    tall: tl.constexpr = tile.shape[1]
    if size == 16 * DOWN:
        a, b = tl.split(tl.permute(tl.reshape(tile, (DOWN, 2, 8, tall)), (0, 2, 3, 1)))
        return a, b, a, b
    else:
        first, second = tl.split(tl.permute(tl.reshape(tile, (2, DOWN, 2, 8, tall)), (1, 3, 4, 2, 0)))
        a, b = tl.split(first)
        c, d = tl.split(second)
        return a, b, c, d


@triton.jit
@no_type_check
def fold(below, parts, m, t, DOWN: tl.constexpr):
    """Learn from a tile of scores − level, and 2 to the power of them."""
    a, b, c, d = apart(below, DOWN)
    p, q, r, s = apart(parts, DOWN)
    m = tl.maximum(m, tl.maximum(a, b))
    t += p * a  # each one operation, a fused multiply-add
    t += q * b
    if below.shape[0] > 16 * DOWN:
        m = tl.maximum(m, tl.maximum(c, d))
        t += r * c
        t += s * d
    return m, t


@triton.jit
@no_type_check
def deposit(pointers, masses, fixed, inside):
    """Add masses in fixed point, and nothing for a NaN, which is told at the end."""
    tl.atomic_add(
        pointers, (tl.where(masses > 0.0, masses, 0.0) * fixed).to(tl.int64), mask=inside, sem="relaxed"
    )


@triton.jit
@no_type_check
def shown(
    column,
    row,
    first_query,
    last_query,
    first_key,
    last_key,
    low,
    high,
    theirs,
    mine,
    LOW,
    HIGH,
    PACKED: tl.constexpr,
):
    """Which keys, down, may be seen by which queries, across."""
    # Seen from a key, a band of keys − queries is one of queries − keys the other way round.
    nearest, farthest = reach(column, first_query, last_query, -high, -low, HIGH, LOW)
    farthest = tl.where((column >= first_key) & (column < last_key), farthest, nearest)
    return meeting(row, nearest, farthest, theirs, mine, PACKED)


@triton.jit
@no_type_check
def go_over(
    q, level, key, key_descriptor, batch, kv_head, row, mine, asked, begin, end,
    first_query, last_query, first_key, last_key, keys, stride_kb, stride_kh, stride_kn, scale, slope, move, low, high,
    fixed, received, cells, wide, m, t, held, edge, cell,
    TALL: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, ROOM: tl.constexpr, SLOPED: tl.constexpr,
    LOW: tl.constexpr, HIGH: tl.constexpr, PACKED: tl.constexpr, MASKED: tl.constexpr,
    MAP: tl.constexpr, DOWN: tl.constexpr, SIDES: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Go over the keys from `begin` to `end`."""
    for start in tl.range(begin, end, SIZE, num_stages=STAGES):
        start = tl.multiple_of(start, SIZE)
        k = bring(
            key, key_descriptor, batch, kv_head, start, keys, stride_kb, stride_kh, stride_kn, SIZE, WIDTH, ROOM
        )  # fmt: skip
        column = start + tl.arange(0, SIZE)
        scores = biased(tl.dot(k, tl.trans(q)), scale, slope, row[None, :] + move, column[:, None], SLOPED)
        below = scores - level[None, :]
        parts = tl.exp2(below)
        if MASKED:
            theirs = column  # never read when there are no documents
            if PACKED:
                theirs = tl.load(asked + column, mask=column < keys, other=-1)
            seen = shown(
                column, row, first_query, last_query, first_key, last_key, low, high, theirs, mine, LOW, HIGH, PACKED
            )  # fmt: skip
            parts = tl.where(seen, parts, 0.0)
            below = tl.where(seen, below, HIDDEN)
        m, t = fold(below, parts, m, t, DOWN)
        got = tl.sum(tl.reshape(parts, (SIZE, SIDES, TALL // SIDES)), 2)
        to = column[:, None] + tl.zeros([1, SIDES], tl.int32)
        deposit(received + to, got, fixed, to < keys)
        if MAP:
            held += got
            if start + SIZE >= edge:
                deposit(cells + cell, tl.sum(tl.sum(held, 1), 0), fixed, None)
                held = tl.zeros_like(held)
                cell += 1
                edge += wide
    return m, t, held, edge, cell


@triton.jit
@no_type_check
def spoil(
    bad, row, mine, asked, begin, end, first_query, last_query, first_key, last_key, keys, low, high,
    received, cells, band, wide, SIZE: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr, PACKED: tl.constexpr,
    MAP: tl.constexpr,
):  # fmt: skip
    """Say that a NaN came by, of all that bad queries see."""
    for start in range(begin, end, SIZE):
        column = start + tl.arange(0, SIZE)
        theirs = column  # never read when there are no documents
        if PACKED:
            theirs = tl.load(asked + column, mask=column < keys, other=-1)
        seen = shown(
            column, row, first_query, last_query, first_key, last_key, low, high, theirs, mine, LOW, HIGH, PACKED
        )  # fmt: skip
        spoilt = tl.max((seen & bad[None, :]).to(tl.int32), 1) > 0
        flag = tl.full([SIZE], -9223372036854775808, tl.int64)
        tl.atomic_or(received + column, flag, mask=spoilt, sem="relaxed")
        if MAP:
            tl.atomic_or(cells + band + column // wide, flag, mask=spoilt, sem="relaxed")


@triton.jit(do_not_specialize=["beside"])
@no_type_check
def single_pass_kernel(
    query, key, key_descriptor, ranges, asking, asked, spans, slopes, level, entropy, peak, received, cells,
    queries, keys, heads, groups, share, beside, height, width,
    stride_qb, stride_qh, stride_qn, stride_kb, stride_kh, stride_kn, scale, move, low, high, fixed,
    TALL: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, ROOM: tl.constexpr, SLOPED: tl.constexpr,
    LOW: tl.constexpr, HIGH: tl.constexpr, PACKED: tl.constexpr, MAP: tl.constexpr,
    DOWN: tl.constexpr, SIDES: tl.constexpr, EVEN: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Everything said of TALL queries of one head, and what they give to its keys."""
    blocks = tl.cdiv(queries, TALL)
    entry, block = turn(blocks, beside)
    if HIGH:
        block = blocks - 1 - block  # the longest first, so that the chip is busy to the end
    batch, head, kv_head = place(entry, heads, groups)
    row = block * TALL + tl.arange(0, TALL)
    real = row < queries
    level += entry.to(tl.int64) * queries
    entropy += entry.to(tl.int64) * queries
    peak += entry.to(tl.int64) * queries
    first_query, last_query, first_key, last_key = limits(ranges, entry, queries, keys)
    mine = row  # never read when there are no documents
    theirs = asked
    span = spans
    if PACKED:
        mine = tl.load(asking + (entry // share).to(tl.int64) * queries + row, mask=real, other=-1)
        theirs = asked + (entry // share).to(tl.int64) * keys
        span = spans + ((entry // share) * blocks + block) * 2
    lowest = tl.maximum(block * TALL, first_query)
    highest = tl.minimum(block * TALL + TALL, last_query) - 1
    start, open_start, open_stop, stop = stretch(
        lowest, highest, first_key, last_key, low, high, span, SIZE, LOW, HIGH, PACKED
    )
    if not EVEN:  # noqa: SIM102
        if highest - lowest < TALL - 1:  # queries that may not look give nothing
            open_start = start
            open_stop = start
    slope = 0.0
    if SLOPED:
        slope = tl.load(slopes + entry)
    q = bring(
        query, None, batch, head, block * TALL, queries, stride_qb, stride_qh, stride_qn, TALL, WIDTH, ROOM
    )
    known = tl.load(level + row, mask=real, other=0.0)
    known = tl.where(known == -float("inf"), 0.0, known)
    m = tl.full([DOWN, 8, TALL], HIDDEN, tl.float32)
    t = tl.zeros([DOWN, 8, TALL], tl.float32)
    received += entry.to(tl.int64) * keys
    held = tl.zeros([SIZE, SIDES], tl.float32)
    wide = 0  # never read when there is no map
    edge = 0
    band = start.to(tl.int64)
    cell = band
    if MAP:
        wide = keys // width
        edge = (start // wide + 1) * wide
        band = (entry.to(tl.int64) * height + block * TALL // (queries // height)) * width
        cell = band + start // wide
    for part in tl.static_range(3):
        # Before the open keys, the open keys, and after them: only in the open part may everybody look at everything.
        # A part that cannot be is left out, since each wants registers of its own.
        if part == 0:
            begin, end = start, open_start
        elif part == 1:
            begin, end = open_start, open_stop
        else:
            begin, end = open_stop, stop
        if (part == 1 and not PACKED) or LOW or (part == 2 and (HIGH or PACKED)) or (part != 1 and not EVEN):
            m, t, held, edge, cell = go_over(
                q, known, key, key_descriptor, batch, kv_head, row, mine, theirs, begin, end,
                first_query, last_query, first_key, last_key, keys, stride_kb, stride_kh, stride_kn,
                scale, slope, move, low, high, fixed, received, cells, wide, m, t, held, edge, cell,
                TALL, SIZE, WIDTH, ROOM, SLOPED, LOW, HIGH, PACKED, part != 1, MAP, DOWN, SIDES, STAGES,
            )  # fmt: skip
    if MAP:  # noqa: SIM102  # the one is known to the compiler, the other is not
        if edge <= keys:
            deposit(cells + cell, tl.sum(tl.sum(held, 1), 0), fixed, None)
    known = tl.load(level + row, mask=real, other=0.0)  # once more, so that nobody holds it all the while
    counts = (row >= first_query) & (row < last_query)
    bad = counts & ((known != known) | (known == float("inf")))
    heaviest = tl.exp2(tl.max(tl.max(m, 0), 0))  # the lanes and warps meet
    spread, heaviest = said(known, heaviest, tl.sum(tl.sum(t, 0), 0), counts)
    tl.store(entropy + row, spread, mask=real)
    tl.store(peak + row, heaviest, mask=real)
    if tl.max(bad.to(tl.int32), 0) > 0:
        spoil(
            bad, row, mine, theirs, start, stop, first_query, last_query, first_key, last_key, keys, low, high,
            received, cells, band, wide, SIZE, LOW, HIGH, PACKED, MAP,
        )  # fmt: skip


@triton.jit
@no_type_check
def settle_kernel(raw, masses, count, unit, SIZE: tl.constexpr):
    """Sums in fixed point as floating-point numbers."""
    at = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    found = tl.load(raw + at, mask=at < count, other=0)
    told = tl.where(found < 0, float("nan"), found.to(tl.float64) * unit).to(tl.float32)
    tl.store(masses + at, told, mask=at < count)
