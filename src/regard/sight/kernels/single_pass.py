"""Kernel for entropy, peak, received mass and a map in one pass, when the log-sum-exp of every query is known.

A program owns queries and loops over their keys. Tiles are transposed, keys down and queries across, since a
thread of a tensor core then holds a few keys of many queries: what a key gets is summed almost within the thread.
With x = score − level, entropy is −Σ 2^x · x, and no sum of parts is needed.

Masses of one key come from many programs. They are added as integer multiples of 2^−n, whose sum has the same bits in
any order; the highest bit marks a NaN.
"""

from typing import no_type_check

import triton
import triton.language as tl

from regard.sight.kernels.program_blocks import Scoring, Side, counted, owned, part_of, reach
from regard.sight.kernels.score_tiles import (
    HIDDEN,
    biased,
    entropy_and_peak,
    ids_at,
    load_tile,
    meeting,
    own_tile,
    same_document,
)


@triton.jit
@no_type_check
def apart(found, DOWN: tl.constexpr):
    """The two or four numbers that a thread holds of each of its queries, as tensors [warp, lane, query]."""
    size: tl.constexpr = found.shape[0]
    tall: tl.constexpr = found.shape[1]
    if size == 16 * DOWN:
        a, b = tl.split(tl.permute(tl.reshape(found, (DOWN, 2, 8, tall)), (0, 2, 3, 1)))
        return a, b, a, b
    else:
        first, second = tl.split(tl.permute(tl.reshape(found, (2, DOWN, 2, 8, tall)), (1, 3, 4, 2, 0)))
        a, b = tl.split(first)
        c, d = tl.split(second)
        return a, b, c, d


@triton.jit
@no_type_check
def fold_across(below, parts, m, t, DOWN: tl.constexpr):
    """Add a tile of scores − level, and 2 to the power of them, to m and t."""
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
    """Add masses in fixed point; a NaN adds nothing, and is marked at the end."""
    tl.atomic_add(
        pointers, (tl.where(masses > 0.0, masses, 0.0) * fixed).to(tl.int64), mask=inside, sem="relaxed"
    )


@triton.jit
@no_type_check
def shown(column, keys, scoring, block):
    """Which keys, down, may be seen by the queries of the block, across."""
    low = None
    high = None
    if scoring.high is not None:
        low = -scoring.high
    if scoring.low is not None:
        high = -scoring.low
    nearest, farthest = reach(column, block.first, block.last, low, high)
    farthest = tl.where((column >= block.other_first) & (column < block.other_last), farthest, nearest)
    met = meeting(block.row, nearest, farthest)
    if keys.ids is not None:
        met = met & same_document(ids_at(block, keys, column), block.ids)
    return met


@triton.jit
@no_type_check
def go_over(
    q, level, keys, scoring, block, begin, end, fixed, received, cells, wide, m, t, held, edge, cell,
    MASKED: tl.constexpr, MAP: tl.constexpr, DOWN: tl.constexpr, SIDES: tl.constexpr, STAGES: tl.constexpr,
    TALL: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    """Loop over the keys from `begin` to `end`."""
    for start in tl.range(begin, end, SIZE, num_stages=STAGES):
        start = tl.multiple_of(start, SIZE)
        k = load_tile(keys, keys.descriptor, block.batch, block.other_head, start, SIZE, WIDTH, PADDED)
        column = start + tl.arange(0, SIZE)
        scores = biased(tl.dot(k, tl.trans(q)), scoring, block.slope, block.row[None, :], column[:, None])
        below = scores - level[None, :]
        parts = tl.exp2(below)
        if MASKED:
            seen = shown(column, keys, scoring, block)
            parts = tl.where(seen, parts, 0.0)
            below = tl.where(seen, below, HIDDEN)
        m, t = fold_across(below, parts, m, t, DOWN)
        got = tl.sum(tl.reshape(parts, (SIZE, SIDES, TALL // SIDES)), 2)
        to = column[:, None] + tl.zeros([1, SIDES], tl.int32)
        deposit(received + to, got, fixed, to < keys.count)
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
def spoil(bad, keys, scoring, block, received, cells, band, wide, SIZE: tl.constexpr, MAP: tl.constexpr):
    """Mark with NaN all keys and cells that bad queries see."""
    for start in range(block.start, block.stop, SIZE):
        column = start + tl.arange(0, SIZE)
        spoilt = tl.max((shown(column, keys, scoring, block) & bad[None, :]).to(tl.int32), 1) > 0
        flag = tl.full([SIZE], -9223372036854775808, tl.int64)
        tl.atomic_or(received + column, flag, mask=spoilt, sem="relaxed")
        if MAP:
            tl.atomic_or(cells + band + column // wide, flag, mask=spoilt, sem="relaxed")


@triton.jit(do_not_specialize=["beside"])
@no_type_check
def single_pass_kernel(
    query, key, query_descriptor, key_descriptor, ranges, query_ids, key_ids, spans, slopes, query_count, key_count,
    heads, groups, share, stride_qb, stride_qh, stride_qn, stride_kb, stride_kh, stride_kn, scale, shift, low, high,
    beside, level, entropy, peak, received, cells, height, width, fixed,
    TALL: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, PADDED: tl.constexpr,
    MAP: tl.constexpr, DOWN: tl.constexpr, SIDES: tl.constexpr, EVEN: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Everything about TALL queries of one head, and what they give to its keys."""
    queries = Side(query, query_descriptor, stride_qb, stride_qh, stride_qn, query_count, query_ids)
    keys = Side(key, key_descriptor, stride_kb, stride_kh, stride_kn, key_count, key_ids)
    scoring = Scoring(ranges, spans, slopes, heads, groups, share, scale, shift, low, high)
    block = owned(queries, keys, scoring, None, beside, False, TALL, SIZE)
    level += block.entry.to(tl.int64) * query_count
    entropy += block.entry.to(tl.int64) * query_count
    peak += block.entry.to(tl.int64) * query_count
    start, open_start, open_stop = block.start, block.open_start, block.open_stop
    if not EVEN:
        lowest = tl.maximum(block.index * TALL, block.first)
        highest = tl.minimum(block.index * TALL + TALL, block.last) - 1
        if highest - lowest < TALL - 1:  # queries that may not look give nothing
            open_start = start
            open_stop = start
    q = own_tile(queries, block, TALL, WIDTH, PADDED, False)
    known = tl.load(level + block.row, mask=block.real, other=0.0)
    known = tl.where(known == -float("inf"), 0.0, known)
    m = tl.full([DOWN, 8, TALL], HIDDEN, tl.float32)
    t = tl.zeros([DOWN, 8, TALL], tl.float32)
    received += block.entry.to(tl.int64) * key_count
    held = tl.zeros([SIZE, SIDES], tl.float32)
    wide = 0  # not read without a map
    edge = 0
    band = start.to(tl.int64)
    cell = band
    if MAP:
        wide = key_count // width
        edge = (start // wide + 1) * wide
        band = (block.entry.to(tl.int64) * height + block.index * TALL // (query_count // height)) * width
        cell = band + start // wide
    for part in tl.static_range(3):
        begin, end = part_of(start, open_start, open_stop, block.stop, part)
        # A part that cannot occur is not compiled, since each part takes registers.
        if (
            low is not None
            or (part == 1 and query_ids is None)
            or (part == 2 and (high is not None or query_ids is not None))
            or (part != 1 and not EVEN)
        ):
            m, t, held, edge, cell = go_over(
                q, known, keys, scoring, block, begin, end, fixed, received, cells, wide, m, t, held, edge, cell,
                part != 1, MAP, DOWN, SIDES, STAGES, TALL, SIZE, WIDTH, PADDED,
            )  # fmt: skip
    if MAP:  # noqa: SIM102  # the one is known to the compiler, the other is not
        if edge <= key_count:
            deposit(cells + cell, tl.sum(tl.sum(held, 1), 0), fixed, None)
    known = tl.load(
        level + block.row, mask=block.real, other=0.0
    )  # again, so that no register holds it in the loop
    counts = counted(block)
    bad = counts & ((known != known) | (known == float("inf")))
    heaviest = tl.exp2(tl.max(tl.max(m, 0), 0))  # the lanes and warps meet
    spread, heaviest = entropy_and_peak(known, heaviest, tl.sum(tl.sum(t, 0), 0), counts)
    tl.store(entropy + block.row, spread, mask=block.real)
    tl.store(peak + block.row, heaviest, mask=block.real)
    if tl.max(bad.to(tl.int32), 0) > 0:
        spoil(bad, keys, scoring, block, received, cells, band, wide, SIZE, MAP)


@triton.jit
@no_type_check
def settle_kernel(raw, masses, count, unit, SIZE: tl.constexpr):
    """Sums in fixed point as floating-point numbers."""
    at = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    found = tl.load(raw + at, mask=at < count, other=0)
    told = tl.where(found < 0, float("nan"), found.to(tl.float64) * unit).to(tl.float32)
    tl.store(masses + at, told, mask=at < count)
