"""Everything in one pass, when the log-sum-exp of every query is known: entropy, peak, mass received, and a map.

A program owns some queries and goes over their keys. Tiles lie on their side, keys down and queries across, since a
thread of a tensor core then holds a few keys of many queries: what a key gets is summed almost within the thread.
With x = score − level, entropy is −Σ 2^x · x.

Masses of one key come from many programs. They are added as whole numbers of 2^−n, whose sum has the same bits in any
order; the highest bit says that a NaN came by.
"""

from typing import no_type_check

import triton
import triton.language as tl

from regard.sight.kernels.tiles import HIDDEN, biased, bring, limits, meeting, place, reach, stretch


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
def fold(below, parts, m, l, t, DOWN: tl.constexpr, SUMMED: tl.constexpr):
    """Learn from a tile of scores − level, and 2 to the power of them."""
    a, b, c, d = apart(below, DOWN)
    p, q, r, s = apart(parts, DOWN)
    m = tl.maximum(m, tl.maximum(a, b))
    if SUMMED:
        l += p + q
    t += p * a  # each one operation, a fused multiply-add
    t += q * b
    if below.shape[0] > 16 * DOWN:
        m = tl.maximum(m, tl.maximum(c, d))
        if SUMMED:
            l += r + s
        t += r * c
        t += s * d
    return m, l, t


@triton.jit
@no_type_check
def deposit(pointers, masses, fixed, spoilt, inside):
    """Add masses in fixed point."""
    sound = masses == masses
    tl.atomic_add(pointers, tl.where(sound, masses * fixed, 0.0).to(tl.int64), mask=inside, sem="relaxed")
    if spoilt:
        tl.atomic_or(pointers, tl.where(sound, 0, -9223372036854775808), mask=inside, sem="relaxed")


@triton.jit
@no_type_check
def go_over(
    q, level, key, key_descriptor, batch, kv_head, row, mine, asked, begin, end,
    first_query, last_query, first_key, last_key, keys, stride_kb, stride_kh, stride_kn, scale, slope, move, low, high,
    fixed, spoilt, received, cells, wide, m, l, t, held, edge, cell,
    TALL: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, ROOM: tl.constexpr, SLOPED: tl.constexpr,
    LOW: tl.constexpr, HIGH: tl.constexpr, PACKED: tl.constexpr, MASKED: tl.constexpr, GIVEN: tl.constexpr,
    MAP: tl.constexpr, DOWN: tl.constexpr, SIDES: tl.constexpr, SUMMED: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Go over the keys from `begin` to `end`."""
    for start in tl.range(begin, end, SIZE, num_stages=STAGES):
        start = tl.multiple_of(start, SIZE)
        k = bring(
            key, key_descriptor, batch, kv_head, start, keys, stride_kb, stride_kh, stride_kn, SIZE, WIDTH, ROOM
        )  # fmt: skip
        column = start + tl.arange(0, SIZE)
        scores = biased(
            tl.dot(k, tl.trans(q)), scale, slope, row[None, :] + move, column[:, None], SLOPED
        )
        below = scores - level[None, :]
        parts = tl.exp2(below)
        if MASKED:
            theirs = column  # never read when there are no documents
            if PACKED:
                theirs = tl.load(asked + column, mask=column < keys, other=-1)
            # Seen from a key, a band of keys − queries is one of queries − keys the other way round.
            nearest, farthest = reach(column, first_query, last_query, -high, -low, HIGH, LOW)
            farthest = tl.where((column >= first_key) & (column < last_key), farthest, nearest)
            seen = meeting(row, nearest, farthest, theirs, mine, PACKED)
            parts = tl.where(seen, parts, 0.0)
            below = tl.where(seen, below, HIDDEN)
        m, l, t = fold(below, parts, m, l, t, DOWN, SUMMED)
        if GIVEN:
            got = tl.sum(tl.reshape(parts, (SIZE, SIDES, TALL // SIDES)), 2)
            to = column[:, None] + tl.zeros([1, SIDES], tl.int32)
            deposit(received + to, got, fixed, spoilt, to < keys)
            if MAP:
                held += got
                if start + SIZE >= edge:
                    deposit(cells + cell, tl.sum(tl.sum(held, 1), 0), fixed, spoilt, None)
                    held = tl.zeros_like(held)
                    cell += 1
                    edge += wide
    return m, l, t, held, edge, cell


@triton.jit
@no_type_check
def once_kernel(
    query, key, key_descriptor, ranges, asking, asked, spans, slopes, level, entropy, peak, received, cells,
    queries, keys, heads, groups, share, height, width,
    stride_qb, stride_qh, stride_qn, stride_kb, stride_kh, stride_kn, scale, move, low, high, fixed,
    TALL: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, ROOM: tl.constexpr, SLOPED: tl.constexpr,
    LOW: tl.constexpr, HIGH: tl.constexpr, PACKED: tl.constexpr, GIVEN: tl.constexpr, MAP: tl.constexpr,
    DOWN: tl.constexpr, SIDES: tl.constexpr, SUMMED: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Everything said of TALL queries of one head, and what they give to its keys."""
    blocks = tl.cdiv(queries, TALL)
    entry = tl.program_id(0) // blocks
    block = tl.program_id(0) % blocks
    if HIGH:
        block = blocks - 1 - block  # the longest first, so that the chip is busy to the end
    batch, head, kv_head = place(entry, heads, groups)
    row = block * TALL + tl.arange(0, TALL)
    real = row < queries
    at = entry.to(tl.int64) * queries + row
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
    if (highest - lowest < TALL - 1):  # rows that may not look give nothing
        open_start = start
        open_stop = start
    slope = 0.0
    if SLOPED:
        slope = tl.load(slopes + entry)
    q = bring(query, None, batch, head, block * TALL, queries, stride_qb, stride_qh, stride_qn, TALL, WIDTH, ROOM)
    known = tl.load(level + at, mask=real, other=0.0)
    looking = (known != -float("inf")) & (row >= first_query) & (row < last_query)
    known = tl.where(looking, known, 0.0)
    spoilt = tl.max(((known != known) | (known == float("inf"))).to(tl.int32), 0) > 0
    m = tl.full([DOWN, 8, TALL], HIDDEN, tl.float32)
    l = tl.zeros([DOWN, 8, TALL], tl.float32)
    t = tl.zeros([DOWN, 8, TALL], tl.float32)
    if GIVEN:
        received += entry.to(tl.int64) * keys
    held = tl.zeros([SIZE, SIDES], tl.float32)
    wide = 0  # never read when there is no map
    edge = 0
    cell = start.to(tl.int64)
    if MAP:
        wide = keys // width
        column = start // wide
        edge = (column + 1) * wide
        cell = (entry.to(tl.int64) * height + block * TALL // (queries // height)) * width + column
    for part in tl.static_range(3):
        # Before the open keys, the open keys, and after them: only in the open part may everybody look at everything.
        if part == 0:
            begin, end = start, open_start
        elif part == 1:
            begin, end = open_start, open_stop
        else:
            begin, end = open_stop, stop
        m, l, t, held, edge, cell = go_over(
            q, known, key, key_descriptor, batch, kv_head, row, mine, theirs, begin, end,
            first_query, last_query, first_key, last_key, keys, stride_kb, stride_kh, stride_kn,
            scale, slope, move, low, high, fixed, spoilt, received, cells, wide, m, l, t, held, edge, cell,
            TALL, SIZE, WIDTH, ROOM, SLOPED, LOW, HIGH, PACKED, part != 1, GIVEN, MAP, DOWN, SIDES, SUMMED, STAGES,
        )  # fmt: skip
    if MAP:  # noqa: SIM102  # the one is known to the compiler, the other is not
        if edge <= keys:
            deposit(cells + cell, tl.sum(tl.sum(held, 1), 0), fixed, spoilt, None)
    largest = tl.max(tl.max(m, 0), 0)  # the lanes and warps meet
    total = tl.sum(tl.sum(l, 0), 0) if SUMMED else tl.full([TALL], 1.0, tl.float32)
    total = tl.where(looking & (total != 0.0), total, 1.0)
    inner = tl.sum(tl.sum(t, 0), 0)
    spread = 0.6931471805599453 * (tl.log2(total) - inner / total)  # were the level exact, `total` would be 1
    tl.store(entropy + at, tl.where(looking, spread, 0.0), mask=real)
    tl.store(peak + at, tl.where(looking, tl.exp2(largest) / total, 0.0), mask=real)


@triton.jit
@no_type_check
def settle_kernel(raw, masses, count, unit, SIZE: tl.constexpr):
    """Sums in fixed point as floating-point numbers."""
    at = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    found = tl.load(raw + at, mask=at < count, other=0)
    told = tl.where(found < 0, float("nan"), found.to(tl.float64) * unit).to(tl.float32)
    tl.store(masses + at, told, mask=at < count)
