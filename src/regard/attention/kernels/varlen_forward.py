"""Attention over variable lengths, forward, as a Triton kernel: padded batches and packed sequences.

A program takes a tile of queries and meets the keys that they see, a tile at a time: first those that all of them see,
without any mask, then those at the edges. What no query sees is never read, and queries that see nothing get zeros.
"""

# mypy: ignore-errors

from typing import no_type_check

import triton
import triton.language as tl

from regard.attention.kernels.varlen_tiles import (
    kept_of,
    phases_of,
    place_of,
    ranges_of,
    read,
    real_of,
    write,
)


@triton.jit
@no_type_check
def _meet(
    query, K, V, begin, columns, k_place, v_place, k_far, v_far, first, last, end,
    SEED, strip_row, keys, ASKED_FIRST, ASKED_LAST, top, total, mixed, scale,
    WIDTH: tl.constexpr, FULL: tl.constexpr, VALUES: tl.constexpr, FULL_VALUES: tl.constexpr,
    PRECISION: tl.constexpr, DROPOUT: tl.constexpr, GAPS: tl.constexpr, EDGE: tl.constexpr,
):  # fmt: skip
    """The online softmax, one tile of keys further (Dao 2023, algorithm 1). `top` and the scores are base-2 logarithms."""
    columns += begin
    there = columns < end
    if EDGE and GAPS:
        there = there & (tl.load(ASKED_LAST + columns, there, 0) > tl.load(ASKED_FIRST + columns, there, 0))
    key = read(K + begin * k_far + k_place, there, WIDTH, FULL, EDGE)
    score = tl.dot(query, tl.trans(key), input_precision=PRECISION)
    if EDGE:
        seen = (columns[None, :] >= first[:, None]) & (columns[None, :] < last[:, None])
        score = tl.where(seen, score * scale, float("-inf"))
        higher = tl.maximum(top, tl.max(score, 1))
        base = tl.where(higher == float("-inf"), 0.0, higher)
        weight = tl.exp2(score - base[:, None])
    else:
        higher = tl.maximum(top, tl.max(score, 1) * scale)
        base = higher
        weight = tl.exp2(score * scale - base[:, None])
    shrink = tl.exp2(top - base)
    total = total * shrink + tl.sum(weight, 1)
    if DROPOUT > 0.0:
        weight *= kept_of(SEED, strip_row[:, None], columns[None, :], keys, DROPOUT)
    value = read(V + begin * v_far + v_place, there, VALUES, FULL_VALUES, EDGE)
    mixed = mixed * shrink[:, None]
    mixed = tl.dot(weight.to(value.dtype), value, mixed, input_precision=PRECISION)
    return higher, total, mixed


@triton.jit(
    do_not_specialize=[
        "heads", "queries", "keys", "tiles", "strips", "together",
        "q_step", "q_count", "q_left", "k_step", "k_count", "k_left", "low", "high",
    ]
)  # fmt: skip
@no_type_check
def forward_kernel(
    Q, K, V, O, LSE, Q_COUNTS, K_COUNTS, FIRST, LAST, ASKED_FIRST, ASKED_LAST, SEED,
    q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row, o_batch, o_head, o_row,
    heads, group, queries, keys, tiles, strips, together,
    q_step, q_count, q_left, k_step, k_count, k_left, low, high, scale,
    WIDTH: tl.constexpr, FULL: tl.constexpr, VALUES: tl.constexpr, FULL_VALUES: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, PRECISION: tl.constexpr, DROPOUT: tl.constexpr, GAPS: tl.constexpr,
):  # fmt: skip
    """O = dropout(softmax(scale · QKᵀ)) V; and the log-sum-exp of each query, to the base 2, unless LSE is None."""
    tile, strip = place_of(tiles, strips, together)
    batch, head = (strip // heads).to(tl.int64), strip % heads
    rows, columns = tile * M + tl.arange(0, M), tl.arange(0, N)
    q_start, q_end = real_of(Q_COUNTS, batch, q_step, q_count, q_left, queries)
    k_start, k_end = real_of(K_COUNTS, batch, k_step, k_count, k_left, keys)
    first, last, some = ranges_of(rows, FIRST, LAST, queries, q_start, q_end, k_start, k_end, low, high)
    start, full, rest, end, before, edges = phases_of(first, last, some, N)
    features, numbers = tl.arange(0, FULL), tl.arange(0, FULL_VALUES)
    Q += batch * q_batch + head.to(tl.int64) * q_head
    K += batch * k_batch + (head // group).to(tl.int64) * k_head
    V += batch * v_batch + (head // group).to(tl.int64) * v_head
    O += batch * o_batch + head.to(tl.int64) * o_head
    query = read(Q + rows[:, None].to(tl.int64) * q_row + features[None, :], some, WIDTH, FULL, True)
    k_place = columns[:, None] * k_row + features[None, :]
    v_place = columns[:, None] * v_row + numbers[None, :]
    k_far, v_far = tl.full((), k_row, tl.int64), tl.full((), v_row, tl.int64)
    strip_row = strip.to(tl.int64) * queries + rows
    top = tl.full([M], float("-inf"), tl.float32)
    total = tl.zeros([M], tl.float32)
    mixed = tl.zeros([M, FULL_VALUES], tl.float32)
    for begin in range(full, rest, N):
        top, total, mixed = _meet(
            query, K, V, begin, columns, k_place, v_place, k_far, v_far, first, last, end,
            SEED, strip_row, keys, ASKED_FIRST, ASKED_LAST, top, total, mixed, scale,
            WIDTH, FULL, VALUES, FULL_VALUES, PRECISION, DROPOUT, GAPS, False,
        )  # fmt: skip
    for edge in range(0, edges):
        begin = tl.where(edge < before, start + edge * N, rest + (edge - before) * N)
        top, total, mixed = _meet(
            query, K, V, begin, columns, k_place, v_place, k_far, v_far, first, last, end,
            SEED, strip_row, keys, ASKED_FIRST, ASKED_LAST, top, total, mixed, scale,
            WIDTH, FULL, VALUES, FULL_VALUES, PRECISION, DROPOUT, GAPS, True,
        )  # fmt: skip
    total = tl.where(some, total, 1.0)
    write(O, mixed / total[:, None], rows, o_row, queries, some, VALUES, FULL_VALUES)
    if LSE is not None:
        # A query that sees nothing gets +∞: its weights come out as 2^−∞ when they are computed again.
        tl.store(LSE + strip_row, tl.where(some, top + tl.log2(total), float("inf")), rows < queries)
