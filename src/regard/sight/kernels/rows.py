"""Kernel whose programs own queries and loop over their keys: log-sum-exp, entropy, peak, and candidates for the top keys.

With x = score − m for the largest score m so far, l = Σ 2^x and t = Σ 2^x · x are all that entropy needs:
log l − t / l. When m grows by δ, both are rescaled to the new m: l ← 2^−δ l, t ← 2^−δ (t − δ l). Where the log-sum-exp
is known, x = score − level needs no rescaling: entropy is −t, and m serves the peak alone.
"""

from typing import no_type_check

import triton
import triton.language as tl

from regard.sight.kernels.program_blocks import Scoring, Side, counted, owned, part_of
from regard.sight.kernels.score_tiles import (
    HIDDEN,
    biased,
    entropy_and_peak,
    laned,
    own_tile,
    products,
    summed,
    visible,
)
from regard.sight.kernels.top_keys import (
    halves,
    insert,
    marked,
    no_bunches,
    remember,
    store_bunches,
    store_list,
)


@triton.jit
@no_type_check
def fold(scores, largest, scale, m, l, t):
    """Add a tile of scores / scale, of which `largest` are the largest, to m, l and t."""
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
    """The same below a log-sum-exp that is known."""
    below = scores * scale - known[:, None, None, None]  # one operation, a fused multiply-add
    return tl.maximum(m, largest * scale), t + summed(tl.exp2(below) * below)


@triton.jit
@no_type_check
def look(
    q, queries, keys, scoring, block, known, begin, end, m, l, t, best, other, where,
    MASKED: tl.constexpr, TOP: tl.constexpr, SLOTS: tl.constexpr, PARTS: tl.constexpr, LANES: tl.constexpr,
    KNOWN: tl.constexpr, STAGES: tl.constexpr,
    TALL: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, PADDED: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """Loop over the keys from `begin` to `end`."""
    for start in tl.range(begin, end, SIZE, num_stages=STAGES):
        start = tl.multiple_of(start, SIZE)
        scores = products(q, queries, keys, block, start, TALL, SIZE, WIDTH, PADDED, EXACT)
        column = start + tl.arange(0, SIZE)
        scale = scoring.scale
        if MASKED or scoring.slopes is not None or TOP > 0:
            scores = biased(scores, scoring, block.slope, block.position[:, None], column[None, :])
            scale = 1.0
        if MASKED:
            scores = tl.where(visible(block, keys, column), scores, HIDDEN)
        scores = laned(scores, LANES)
        at = start
        if PARTS == 2:
            first, second = halves(scores)
            tops = tl.maximum(first, second)
            at = (start + (second > first).to(tl.int32))[:, :, None]  # odd if the second is the better
        elif TOP > 0:
            numbered = marked(scores, SIZE // LANES - 1)
            tops = tl.max(tl.max(numbered, 1), 2)
        else:
            tops = tl.max(tl.max(scores, 1), 2)
        if not KNOWN:
            m, l, t = fold(scores, tops, scale, m, l, t)
        elif PARTS == 0:
            m, t = fold_known(scores, tops, scale, known, m, t)
        if TOP > 0:
            best, where = insert(numbered, tops, start, best, where, LANES, SLOTS, SIZE // LANES - 1)
        if PARTS > 0:
            best, where, put = remember(best, where, tops * scale, at, SLOTS)
        if PARTS == 2:
            other = tl.where(put, (tl.minimum(first, second) * scale)[:, :, None], other)
    return m, l, t, best, other, where


@triton.jit(do_not_specialize=["beside"])
@no_type_check
def rows_kernel(
    query, key, query_descriptor, key_descriptor, ranges, query_ids, key_ids, spans, slopes, query_count, key_count,
    heads, groups, share, stride_qb, stride_qh, stride_qn, stride_kb, stride_kh, stride_kn, scale, shift, low, high,
    beside, positions, level, entropy, peak, top_keys, top_weights, bunch,
    TALL: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, PADDED: tl.constexpr, EXACT: tl.constexpr,
    TOP: tl.constexpr, SLOTS: tl.constexpr, PARTS: tl.constexpr, LANES: tl.constexpr, KNOWN: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """Everything about TALL queries of one head.

    With TOP, a list of their top keys, for which the log-sum-exp must not be KNOWN. With PARTS, the bunches of keys that
    hold the top SLOTS, and nothing else where it is KNOWN.
    """
    queries = Side(query, query_descriptor, stride_qb, stride_qh, stride_qn, query_count, query_ids)
    keys = Side(key, key_descriptor, stride_kb, stride_kh, stride_kn, key_count, key_ids)
    scoring = Scoring(ranges, spans, slopes, heads, groups, share, scale, shift, low, high)
    block = owned(queries, keys, scoring, positions, beside, False, TALL, SIZE)
    q = own_tile(queries, block, TALL, WIDTH, PADDED, EXACT)
    at = block.entry.to(tl.int64) * query_count + block.row
    known = 0.0  # not read unless KNOWN
    if KNOWN and PARTS == 0:
        known = tl.load(level + at, mask=block.real, other=0.0)
        known = tl.where(known == -float("inf"), 0.0, known)
    m = tl.full([TALL, LANES], HIDDEN, tl.float32)
    l = tl.zeros([TALL, LANES], tl.float32)
    t = tl.zeros([TALL, LANES], tl.float32)
    if PARTS > 0:
        best, other, where = no_bunches(TALL, LANES, SLOTS)
    else:
        best = tl.full([TALL, SLOTS], 0.5 * HIDDEN, tl.float32)
        other = best
        where = tl.full([TALL, SLOTS], -1, tl.int32)
    for part in tl.static_range(3):
        begin, end = part_of(block.start, block.open_start, block.open_stop, block.stop, part)
        m, l, t, best, other, where = look(
            q, queries, keys, scoring, block, known, begin, end, m, l, t, best, other, where,
            part != 1, TOP, SLOTS, PARTS, LANES, KNOWN, STAGES,
            TALL, SIZE, WIDTH, PADDED, EXACT,
        )  # fmt: skip
    largest = tl.max(m, 1)
    if not KNOWN:
        shrink = m - largest[:, None]  # the lanes meet
        t = tl.sum(tl.exp2(shrink) * (t + shrink * l), 1)
        l = tl.sum(tl.exp2(shrink) * l, 1)
        looking = ((largest > 0.5 * HIDDEN) | (l != l)) & counted(block)
        total = tl.where(looking, l, 1.0)
        here = tl.where(looking, largest + tl.log2(total), -float("inf"))
        spread = 0.6931471805599453 * (tl.log2(total) - t / total)
        tl.store(level + at, here, mask=block.real)
        tl.store(entropy + at, tl.where(looking, spread, 0.0), mask=block.real)
        if TOP == 0:
            tl.store(peak + at, tl.where(looking, 1.0 / total, 0.0), mask=block.real)
        else:
            store_list(
                queries, keys, scoring, block, looking, here, best, where, peak, top_keys, top_weights, at, TOP, SLOTS, TALL, WIDTH, PADDED
            )  # fmt: skip
    elif PARTS == 0:
        here = tl.load(level + at, mask=block.real, other=0.0)
        spread, heaviest = entropy_and_peak(here, tl.exp2(largest - known), tl.sum(t, 1), counted(block))
        tl.store(entropy + at, spread, mask=block.real)
        tl.store(peak + at, heaviest, mask=block.real)
    if PARTS > 0:
        store_bunches(bunch, at, block.real, best, other, where, LANES, SLOTS, PARTS, SIZE)
