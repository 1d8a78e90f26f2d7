"""Attention over variable lengths, backward, as two Triton kernels: once over the queries and once over the keys.

Nothing but the log-sum-exp is kept of the forward pass, and no atomic addition is made: the same inputs give the same bits.
As in the forward kernel, keys and values that no query sees are never read, not even in the gradient of the output.
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
def _meet_keys(
    query, slope, lse, delta, K, V, begin, columns, k_place, v_place, k_far, v_far, first, last, end,
    SEED, strip_row, keys, ASKED_FIRST, ASKED_LAST, gradient, scale,
    WIDTH: tl.constexpr, FULL: tl.constexpr, VALUES: tl.constexpr, FULL_VALUES: tl.constexpr,
    PRECISION: tl.constexpr, DROPOUT: tl.constexpr, GAPS: tl.constexpr, EDGE: tl.constexpr,
):  # fmt: skip
    columns += begin
    there = columns < end
    if EDGE and GAPS:
        there = there & (tl.load(ASKED_LAST + columns, there, 0) > tl.load(ASKED_FIRST + columns, there, 0))
    key = read(K + begin * k_far + k_place, there, WIDTH, FULL, EDGE)
    value = read(V + begin * v_far + v_place, there, VALUES, FULL_VALUES, EDGE)
    score = tl.dot(query, tl.trans(key), input_precision=PRECISION)
    along = tl.dot(slope, tl.trans(value), input_precision=PRECISION)
    weight = tl.exp2(score * scale - lse[:, None])
    if EDGE:
        seen = (columns[None, :] >= first[:, None]) & (columns[None, :] < last[:, None])
        weight = tl.where(seen, weight, 0.0)
    if DROPOUT > 0.0:
        along *= kept_of(SEED, strip_row[:, None], columns[None, :], keys, DROPOUT)
    inner = weight * (along - delta[:, None])
    return tl.dot(inner.to(key.dtype), key, gradient, input_precision=PRECISION)


@triton.jit(
    do_not_specialize=[
        "heads", "queries", "keys", "tiles", "strips", "together",
        "q_step", "q_count", "q_left", "k_step", "k_count", "k_left", "low", "high",
    ]
)  # fmt: skip
@no_type_check
def to_query_kernel(
    Q, K, V, O, GO, GQ, LSE, DELTA, Q_COUNTS, K_COUNTS, FIRST, LAST, ASKED_FIRST, ASKED_LAST, SEED,
    q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row, o_batch, o_head, o_row,
    go_batch, go_head, go_row, gq_batch, gq_head, gq_row,
    heads, group, queries, keys, tiles, strips, together,
    q_step, q_count, q_left, k_step, k_count, k_left, low, high, scale, factor,
    WIDTH: tl.constexpr, FULL: tl.constexpr, VALUES: tl.constexpr, FULL_VALUES: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, PRECISION: tl.constexpr, DROPOUT: tl.constexpr, GAPS: tl.constexpr,
):  # fmt: skip
    """The gradient of the queries, and Σ gradient · output of each, which the other kernel needs."""
    tile, strip = place_of(tiles, strips, together)
    batch, head = (strip // heads).to(tl.int64), strip % heads
    rows, columns = tile * M + tl.arange(0, M), tl.arange(0, N)
    q_start, q_end = real_of(Q_COUNTS, batch, q_step, q_count, q_left, queries)
    k_start, k_end = real_of(K_COUNTS, batch, k_step, k_count, k_left, keys)
    first, last, some = ranges_of(rows, FIRST, LAST, queries, q_start, q_end, k_start, k_end, low, high)
    start, full, rest, end, before, edges = phases_of(first, last, some, N)
    features, numbers = tl.arange(0, FULL), tl.arange(0, FULL_VALUES)
    K += batch * k_batch + (head // group).to(tl.int64) * k_head
    V += batch * v_batch + (head // group).to(tl.int64) * v_head
    Q += batch * q_batch + head.to(tl.int64) * q_head
    O += batch * o_batch + head.to(tl.int64) * o_head
    GO += batch * go_batch + head.to(tl.int64) * go_head
    GQ += batch * gq_batch + head.to(tl.int64) * gq_head
    far = rows[:, None].to(tl.int64)
    query = read(Q + far * q_row + features[None, :], some, WIDTH, FULL, True)
    slope = read(GO + far * go_row + numbers[None, :], some, VALUES, FULL_VALUES, True)
    output = read(O + far * o_row + numbers[None, :], some, VALUES, FULL_VALUES, True)
    delta = tl.sum(slope.to(tl.float32) * output.to(tl.float32), 1)
    strip_row = strip.to(tl.int64) * queries + rows
    tl.store(DELTA + strip_row, delta, rows < queries)
    lse = tl.load(LSE + strip_row, rows < queries, float("inf"))
    k_place = columns[:, None] * k_row + features[None, :]
    v_place = columns[:, None] * v_row + numbers[None, :]
    k_far, v_far = tl.full((), k_row, tl.int64), tl.full((), v_row, tl.int64)
    gradient = tl.zeros([M, FULL], tl.float32)
    for begin in range(full, rest, N):
        gradient = _meet_keys(
            query, slope, lse, delta, K, V, begin, columns, k_place, v_place, k_far, v_far, first, last, end,
            SEED, strip_row, keys, ASKED_FIRST, ASKED_LAST, gradient, scale,
            WIDTH, FULL, VALUES, FULL_VALUES, PRECISION, DROPOUT, GAPS, False,
        )  # fmt: skip
    for edge in range(0, edges):
        begin = tl.where(edge < before, start + edge * N, rest + (edge - before) * N)
        gradient = _meet_keys(
            query, slope, lse, delta, K, V, begin, columns, k_place, v_place, k_far, v_far, first, last, end,
            SEED, strip_row, keys, ASKED_FIRST, ASKED_LAST, gradient, scale,
            WIDTH, FULL, VALUES, FULL_VALUES, PRECISION, DROPOUT, GAPS, True,
        )  # fmt: skip
    write(GQ, gradient * factor, rows, gq_row, queries, some, WIDTH, FULL)


@triton.jit
@no_type_check
def _meet_queries(
    key, value, Q, GO, LSE, DELTA, begin, rows, q_place, go_place, q_far, go_far, first, last, end,
    SEED, strip_row, columns, keys, FIRST, LAST, to_key, to_value, scale,
    WIDTH: tl.constexpr, FULL: tl.constexpr, VALUES: tl.constexpr, FULL_VALUES: tl.constexpr,
    PRECISION: tl.constexpr, DROPOUT: tl.constexpr, GAPS: tl.constexpr, EDGE: tl.constexpr,
):  # fmt: skip
    rows += begin
    there = rows < end
    if EDGE and GAPS:
        there = there & (tl.load(LAST + rows, there, 0) > tl.load(FIRST + rows, there, 0))
    query = read(Q + begin * q_far + q_place, there, WIDTH, FULL, EDGE)
    slope = read(GO + begin * go_far + go_place, there, VALUES, FULL_VALUES, EDGE)
    if EDGE:
        lse = tl.load(LSE + rows, there, float("inf"))
        delta = tl.load(DELTA + rows, there, 0.0)
    else:
        lse = tl.load(LSE + rows)
        delta = tl.load(DELTA + rows)
    score = tl.dot(key, tl.trans(query), input_precision=PRECISION)
    along = tl.dot(value, tl.trans(slope), input_precision=PRECISION)
    weight = tl.exp2(score * scale - lse[None, :])
    if EDGE:
        seen = (rows[None, :] >= first[:, None]) & (rows[None, :] < last[:, None])
        weight = tl.where(seen, weight, 0.0)
    given = weight
    if DROPOUT > 0.0:
        kept = kept_of(SEED, (strip_row + rows)[None, :], columns[:, None], keys, DROPOUT)
        given = weight * kept
        along *= kept
    to_value = tl.dot(given.to(slope.dtype), slope, to_value, input_precision=PRECISION)
    inner = weight * (along - delta[None, :])
    to_key = tl.dot(inner.to(query.dtype), query, to_key, input_precision=PRECISION)
    return to_key, to_value


@triton.jit(
    do_not_specialize=[
        "heads", "queries", "keys", "tiles", "strips", "together",
        "q_step", "q_count", "q_left", "k_step", "k_count", "k_left", "low", "high",
    ]
)  # fmt: skip
@no_type_check
def to_key_kernel(
    Q, K, V, GO, GK, GV, LSE, DELTA, Q_COUNTS, K_COUNTS, FIRST, LAST, ASKED_FIRST, ASKED_LAST, SEED,
    q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row,
    go_batch, go_head, go_row, gk_batch, gk_head, gk_row, gv_batch, gv_head, gv_row,
    heads, group, queries, keys, tiles, strips, together,
    q_step, q_count, q_left, k_step, k_count, k_left, low, high, scale, factor,
    WIDTH: tl.constexpr, FULL: tl.constexpr, VALUES: tl.constexpr, FULL_VALUES: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, PRECISION: tl.constexpr, DROPOUT: tl.constexpr, GAPS: tl.constexpr,
):  # fmt: skip
    """The gradients of keys and values, a sum over all queries and over the heads that share them."""
    tile, strip = place_of(tiles, strips, together)
    kv_heads = heads // group
    batch, kv_head = (strip // kv_heads).to(tl.int64), strip % kv_heads
    if high < tiles * N:  # the first keys are seen by most
        tile = tiles - 1 - tile
    columns, rows = tile * N + tl.arange(0, N), tl.arange(0, M)
    q_start, q_end = real_of(Q_COUNTS, batch, q_step, q_count, q_left, queries)
    k_start, k_end = real_of(K_COUNTS, batch, k_step, k_count, k_left, keys)
    first, last, some = ranges_of(
        columns, ASKED_FIRST, ASKED_LAST, keys, k_start, k_end, q_start, q_end, -high, -low
    )
    start, full, rest, end, before, edges = phases_of(first, last, some, M)
    features, numbers = tl.arange(0, FULL), tl.arange(0, FULL_VALUES)
    K += batch * k_batch + kv_head.to(tl.int64) * k_head
    V += batch * v_batch + kv_head.to(tl.int64) * v_head
    GK += batch * gk_batch + kv_head.to(tl.int64) * gk_head
    GV += batch * gv_batch + kv_head.to(tl.int64) * gv_head
    far = columns[:, None].to(tl.int64)
    key = read(K + far * k_row + features[None, :], some, WIDTH, FULL, True)
    value = read(V + far * v_row + numbers[None, :], some, VALUES, FULL_VALUES, True)
    q_place = rows[:, None] * q_row + features[None, :]
    go_place = rows[:, None] * go_row + numbers[None, :]
    q_far, go_far = tl.full((), q_row, tl.int64), tl.full((), go_row, tl.int64)
    to_key = tl.zeros([N, FULL], tl.float32)
    to_value = tl.zeros([N, FULL_VALUES], tl.float32)
    for member in range(0, group):
        head = kv_head * group + member
        strip_row = (batch * heads + head) * queries
        ASKING = Q + batch * q_batch + head.to(tl.int64) * q_head
        SLOPE = GO + batch * go_batch + head.to(tl.int64) * go_head
        for begin in range(full, rest, M):
            to_key, to_value = _meet_queries(
                key, value, ASKING, SLOPE, LSE + strip_row, DELTA + strip_row, begin, rows, q_place, go_place,
                q_far, go_far, first, last, end, SEED, strip_row, columns, keys, FIRST, LAST, to_key, to_value, scale,
                WIDTH, FULL, VALUES, FULL_VALUES, PRECISION, DROPOUT, GAPS, False,
            )  # fmt: skip
        for edge in range(0, edges):
            begin = tl.where(edge < before, start + edge * M, rest + (edge - before) * M)
            to_key, to_value = _meet_queries(
                key, value, ASKING, SLOPE, LSE + strip_row, DELTA + strip_row, begin, rows, q_place, go_place,
                q_far, go_far, first, last, end, SEED, strip_row, columns, keys, FIRST, LAST, to_key, to_value, scale,
                WIDTH, FULL, VALUES, FULL_VALUES, PRECISION, DROPOUT, GAPS, True,
            )  # fmt: skip
    write(GK, to_key * factor, columns, gk_row, keys, some, WIDTH, FULL)
    write(GV, to_value, columns, gv_row, keys, some, VALUES, FULL_VALUES)
