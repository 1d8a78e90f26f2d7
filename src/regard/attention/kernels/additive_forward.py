"""Additive attention in one Triton kernel: scores, an online softmax (Milakov 2018) and values, a tile at a time."""

# mypy: ignore-errors

from typing import no_type_check

import triton
import triton.language as tl

from regard.attention.kernels.additive_tiles import LOG2_E, product, tile_scores


@triton.jit
@no_type_check
def open_pairs(
    rows, columns, query_count, key_count, low, high, rest, rest_row, rest_column, HAS_REST: tl.constexpr
):
    """Who may look at whom among some rows and columns, given as two tensors that broadcast."""
    ahead = columns - rows
    allowed = (rows < query_count) & (columns < key_count) & (ahead >= low) & (ahead <= high)
    if HAS_REST:
        place = rows.to(tl.int64) * rest_row + columns.to(tl.int64) * rest_column
        allowed = allowed & (tl.load(rest + place, mask=allowed, other=0) != 0)
    return allowed


@triton.jit
@no_type_check
def kept(seed, entry, rows, columns, dropout, gain):
    """gain = 1 / (1 − dropout) for a weight that stays, 0 for one that is dropped: a function of where it is alone."""
    zero = rows * 0 + columns * 0
    bits, _, _, _ = tl.philox(tl.load(seed), zero + columns, zero + rows, zero + entry.to(tl.int32), zero)
    return tl.where(tl.uint_to_uniform_float(bits) >= dropout, gain, 0.0)


@triton.jit(do_not_specialize=["k_padded"])
@no_type_check
def forward_kernel(
    q_exp, q_plain, q_size, k_exp, k_plain, k_size, vector, value, rest, bias, seed, out, lse,
    heads, groups, query_count, key_count, width, q_padded, k_padded, value_width, low, high, scale, dropout, gain,
    value_batch, value_head, value_row, value_column,
    rest_batch, rest_head, rest_row, rest_column,
    bias_batch, bias_head, bias_row, bias_column,
    HAS_REST: tl.constexpr, HAS_BIAS: tl.constexpr, DROPS: tl.constexpr,
    PAIRED: tl.constexpr, HARDWARE: tl.constexpr, UNROLL: tl.constexpr,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, VALUES: tl.constexpr,
):  # fmt: skip
    """One tile of queries over all of their keys. Writes what they take, and the log-sum-exp of their scores."""
    entry = tl.program_id(0).to(tl.int64)
    batch, head, shared = entry // heads, entry % heads, entry // groups
    # Under a causal mask the last queries have most to do, so they go first.
    first = (tl.num_programs(1) - 1 - tl.program_id(1)) * QUERIES
    rows = first + tl.arange(0, QUERIES)
    features = tl.program_id(2) * VALUES + tl.arange(0, VALUES)
    q_exp += entry * width * q_padded + first
    q_plain += entry * width * q_padded + first
    q_size += entry * q_padded + first
    k_exp += shared * width * k_padded
    k_plain += shared * width * k_padded
    k_size += shared * k_padded
    vector += head * width
    value += batch * value_batch + (head // groups) * value_head
    rest += batch * rest_batch + head * rest_head
    bias += batch * bias_batch + head * bias_head

    largest = tl.full([QUERIES], float("-inf"), tl.float32)
    weight = tl.zeros([QUERIES], tl.float32)
    mixed = tl.zeros([QUERIES, VALUES], tl.float32)
    start = tl.maximum(first + low, 0) // KEYS * KEYS
    stop = tl.minimum(first + QUERIES + high, key_count)
    for column in range(start, stop, KEYS):
        columns = column + tl.arange(0, KEYS)
        anybody = True
        if HAS_REST:
            allowed = open_pairs(
                rows[:, None], columns[None, :], query_count, key_count, low, high,
                rest, rest_row, rest_column, HAS_REST,
            )  # fmt: skip
            anybody = tl.max(allowed.to(tl.int32)) > 0
        if anybody:
            scores = tile_scores(
                k_exp + column, k_plain + column, k_size + column, k_padded, q_exp, q_plain, q_size, q_padded,
                vector, width, KEYS, QUERIES, UNROLL, PAIRED, HARDWARE,
            )  # fmt: skip
            scores *= scale
            allowed = open_pairs(  # after the scores, so that they have the registers
                rows[:, None], columns[None, :], query_count, key_count, low, high,
                rest, rest_row, rest_column, HAS_REST,
            )  # fmt: skip
            if HAS_BIAS:
                place = rows[:, None].to(tl.int64) * bias_row + columns[None, :].to(tl.int64) * bias_column
                scores += tl.load(bias + place, mask=allowed, other=0.0).to(tl.float32)
            scores = tl.where(allowed, scores, float("-inf"))
            above = tl.maximum(largest, tl.max(scores, 1))
            level = tl.where(above == float("-inf"), 0.0, above)
            parts = tl.exp2(
                (scores - level[:, None]) * LOG2_E
            )  # the difference first: near 0 where it matters
            fade = tl.exp2((largest - level) * LOG2_E)
            weight = weight * fade + tl.sum(parts, 1)
            if DROPS:
                parts *= kept(seed, entry, rows[:, None], columns[None, :], dropout, gain)
            place = columns[:, None].to(tl.int64) * value_row + features[None, :] * value_column
            inside = (columns < key_count)[:, None] & (features < value_width)[None, :]
            taken = tl.load(value + place, mask=inside, other=0.0)
            mixed = product(parts.to(taken.dtype), taken, mixed * fade[:, None], HARDWARE)
            largest = above
    mixed = mixed * tl.where(weight == 0, 0.0, 1.0 / weight)[:, None]
    inside = (rows < query_count)[:, None] & (features < value_width)[None, :]
    place = (entry * query_count + rows[:, None]) * value_width + features[None, :]
    tl.store(out + place, mixed.to(out.dtype.element_ty), mask=inside)
    if tl.program_id(2) == 0:
        logs = tl.where(weight == 0, float("-inf"), largest + tl.log2(weight) / LOG2_E)
        tl.store(lse + entry * query_count + rows, logs, mask=rows < query_count)


@triton.jit(do_not_specialize=["k_padded"])
@no_type_check
def scores_kernel(
    q_exp, q_plain, q_size, k_exp, k_plain, k_size, vector, out,
    query_count, key_count, width, q_padded, k_padded,
    PAIRED: tl.constexpr, HARDWARE: tl.constexpr, UNROLL: tl.constexpr,
    QUERIES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """One tile of the matrix of scores, for those who want it in memory."""
    entry = tl.program_id(0).to(tl.int64)
    first, column = tl.program_id(1) * QUERIES, tl.program_id(2) * KEYS
    rows, columns = first + tl.arange(0, QUERIES), column + tl.arange(0, KEYS)
    asking, asked = entry * width * q_padded + first, entry * width * k_padded + column
    scores = tile_scores(
        k_exp + asked, k_plain + asked, k_size + entry * k_padded + column, k_padded,
        q_exp + asking, q_plain + asking, q_size + entry * q_padded + first, q_padded,
        vector + entry * width, width, KEYS, QUERIES, UNROLL, PAIRED, HARDWARE,
    )  # fmt: skip
    place = (entry * query_count + rows[:, None]) * key_count + columns[None, :]
    inside = (rows < query_count)[:, None] & (columns < key_count)[None, :]
    tl.store(out + place, scores.to(out.dtype.element_ty), mask=inside)
