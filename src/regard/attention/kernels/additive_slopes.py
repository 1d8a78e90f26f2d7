"""The gradients of the scores of additive attention in Triton, from scores made again."""

# mypy: ignore-errors

from typing import no_type_check

import triton
import triton.language as tl

from regard.attention.kernels.additive_forward import kept, open_pairs
from regard.attention.kernels.additive_tiles import LOG2_E, product, tile_scores


@triton.jit(do_not_specialize=["k_padded"])
@no_type_check
def slopes_kernel(
    q_exp, q_plain, q_size, k_exp, k_plain, k_size, vector, value, rest, bias, seed,
    lse, upstream, delta, slopes, weights,
    heads, groups, query_count, key_count, width, q_padded, k_padded, value_width, low, high, scale, dropout, gain,
    value_batch, value_head, value_row, value_column,
    rest_batch, rest_head, rest_row, rest_column,
    bias_batch, bias_head, bias_row, bias_column,
    first_entry, first_row, some_rows, rows_padded, first_key, some_keys, keys_padded,
    HAS_REST: tl.constexpr, HAS_BIAS: tl.constexpr, DROPS: tl.constexpr,
    PAIRED: tl.constexpr, HARDWARE: tl.constexpr, UNROLL: tl.constexpr,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, VALUES: tl.constexpr,
):  # fmt: skip
    """One tile of the gradient of the scaled scores, [strips, keys, queries], and of the weights that the values met."""
    first_row = tl.multiple_of(first_row, 32)
    strip = tl.program_id(0).to(tl.int64)
    entry = strip + first_entry
    batch, head, shared = entry // heads, entry % heads, entry // groups
    near, far = tl.program_id(1) * QUERIES, tl.program_id(2) * KEYS
    column = tl.multiple_of(first_key, 32) + far
    rows = first_row + near + tl.arange(0, QUERIES)
    columns = column + tl.arange(0, KEYS)
    rest += batch * rest_batch + head * rest_head
    ahead = column - first_row - near
    anybody = (ahead + KEYS > low) & (ahead - QUERIES < high)
    if HAS_REST:
        allowed = open_pairs(
            rows[:, None], columns[None, :], query_count, key_count, low, high,
            rest, rest_row, rest_column, HAS_REST,
        )  # fmt: skip
        anybody = tl.max(allowed.to(tl.int32)) > 0
    slope = tl.zeros([QUERIES, KEYS], tl.float32)
    used = tl.zeros([QUERIES, KEYS], tl.float32)
    if anybody:
        asking = entry * width * q_padded + first_row + near
        asked = shared * width * k_padded + column
        scores = tile_scores(
            k_exp + asked, k_plain + asked, k_size + shared * k_padded + column, k_padded,
            q_exp + asking, q_plain + asking, q_size + entry * q_padded + first_row + near, q_padded,
            vector + head * width, width, KEYS, QUERIES, UNROLL, PAIRED, HARDWARE,
        )  # fmt: skip
        scores *= scale
        allowed = open_pairs(  # after the scores, so that they have the registers
            rows[:, None], columns[None, :], query_count, key_count, low, high,
            rest, rest_row, rest_column, HAS_REST,
        )  # fmt: skip
        if HAS_BIAS:
            bias += batch * bias_batch + head * bias_head
            place = rows[:, None].to(tl.int64) * bias_row + columns[None, :].to(tl.int64) * bias_column
            scores += tl.load(bias + place, mask=allowed, other=0.0).to(tl.float32)
        looking = rows < query_count
        level = tl.load(lse + entry * query_count + rows, mask=looking, other=0.0)
        parts = tl.where(allowed, tl.exp2((scores - level[:, None]) * LOG2_E), 0.0)
        value += batch * value_batch + (head // groups) * value_head
        towards = tl.zeros([QUERIES, KEYS], tl.float32)
        for feature in range(0, value_width, VALUES):
            features = feature + tl.arange(0, VALUES)
            wanted = tl.load(
                upstream + (entry * query_count + rows[:, None]) * value_width + features[None, :],
                mask=looking[:, None] & (features < value_width)[None, :], other=0.0,
            )  # fmt: skip
            offered = tl.load(
                value + columns[None, :].to(tl.int64) * value_row + features[:, None] * value_column,
                mask=(columns < key_count)[None, :] & (features < value_width)[:, None], other=0.0,
            )  # fmt: skip
            towards = product(wanted, offered, towards, HARDWARE)
        used = parts
        if DROPS:
            keep = kept(seed, entry, rows[:, None], columns[None, :], dropout, gain)
            towards *= keep
            used = parts * keep
        expected = tl.load(delta + entry * query_count + rows, mask=looking, other=0.0)
        slope = tl.where(allowed, parts * (towards - expected[:, None]), 0.0)
    inside, across = (near + tl.arange(0, QUERIES))[:, None], (far + tl.arange(0, KEYS))[None, :]
    spot = (strip * keys_padded + across) * rows_padded + inside
    tl.store(slopes + spot, slope, mask=(inside < rows_padded) & (across < keys_padded))
    spot = (strip * some_rows + inside) * some_keys + across
    tl.store(
        weights + spot, used.to(weights.dtype.element_ty), mask=(inside < some_rows) & (across < some_keys)
    )
