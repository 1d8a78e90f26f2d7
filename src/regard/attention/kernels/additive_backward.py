"""The gradients of additive attention in Triton, without float atomics: each program owns what it writes.

The slope of each pair is computed for a bounded number of queries at a time, from scores made again; from the slopes
each query sums over the keys and each key over the queries, making the hyperbolic tangents once more.
"""

# mypy: ignore-errors

from typing import no_type_check

import triton
import triton.language as tl

from regard.attention.kernels.additive_forward import kept, open_pairs
from regard.attention.kernels.additive_tiles import (
    LOG2_E,
    SHARPNESS,
    WIDE,
    product,
    reciprocal,
    tangent,
    tile_scores,
)


@triton.jit
@no_type_check
def slopes_kernel(
    q_exp, q_plain, q_size, k_exp, k_plain, k_size, vector, totals, value, rest, bias, seed,
    lse, upstream, delta, slopes, mirrored, weights,
    heads, groups, query_count, key_count, width, q_padded, k_padded, value_width, low, high, scale, dropout, gain,
    value_batch, value_head, value_row, value_column,
    rest_batch, rest_head, rest_row, rest_column,
    bias_batch, bias_head, bias_row, bias_column,
    first_entry, first_row, some_rows,
    HAS_REST: tl.constexpr, HAS_BIAS: tl.constexpr, DROPS: tl.constexpr,
    PAIRED: tl.constexpr, HARDWARE: tl.constexpr, UNROLL: tl.constexpr,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, VALUES: tl.constexpr,
):  # fmt: skip
    """One tile of the gradient of the scaled scores, both ways around, and of the weights that the values met."""
    first_row = tl.multiple_of(first_row, 32)
    strip = tl.program_id(0).to(tl.int64)
    entry = strip + first_entry
    batch, head, shared = entry // heads, entry % heads, entry // groups
    near = tl.program_id(1) * QUERIES + tl.arange(0, QUERIES)
    rows = first_row + near
    columns = tl.program_id(2) * KEYS + tl.arange(0, KEYS)
    written = (near < some_rows)[:, None] & (columns < key_count)[None, :]
    spot = (strip * some_rows + near[:, None]) * key_count + columns[None, :]
    opposite = (strip * key_count + columns[None, :]) * some_rows + near[:, None]
    rest += batch * rest_batch + head * rest_head
    allowed = open_pairs(
        rows[:, None],
        columns[None, :],
        query_count,
        key_count,
        low,
        high,
        rest,
        rest_row,
        rest_column,
        HAS_REST,
    )
    if tl.max(allowed.to(tl.int32)) > 0:
        asking = entry * width * q_padded + first_row + tl.program_id(1) * QUERIES
        asked = shared * width * k_padded + tl.program_id(2) * KEYS
        scores = tile_scores(
            k_exp + asked, k_plain + asked, k_size + shared * k_padded + tl.program_id(2) * KEYS, k_padded,
            q_exp + asking, q_plain + asking,
            q_size + entry * q_padded + first_row + tl.program_id(1) * QUERIES, q_padded,
            vector + head * width, tl.load(totals + head), width, KEYS, QUERIES, UNROLL, PAIRED, HARDWARE,
        )  # fmt: skip
        scores *= scale
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
        tl.store(slopes + spot, slope, mask=written)
        tl.store(mirrored + opposite, slope, mask=written)
        tl.store(weights + spot, used.to(weights.dtype.element_ty), mask=written)
    else:
        tl.store(slopes + spot, tl.zeros([QUERIES, KEYS], tl.float32), mask=written)
        tl.store(mirrored + opposite, tl.zeros([QUERIES, KEYS], tl.float32), mask=written)
        tl.store(weights + spot, tl.zeros([QUERIES, KEYS], weights.dtype.element_ty), mask=written)


@triton.jit(do_not_specialize=["own_count"])
@no_type_check
def gradient_kernel(
    own_exp, own_plain, own_size, other_exp, other_plain, other_size, vector, slopes, grad, met,
    own_entry, own_first, own_count, own_padded, other_first, other_count, other_padded,
    width, gather, spread, first_entry, heads, low, high, scale,
    QUERIES_OWN: tl.constexpr, SPARSE: tl.constexpr, PAIRED: tl.constexpr, HARDWARE: tl.constexpr,
    OWNS: tl.constexpr, OTHERS: tl.constexpr, HIDDEN: tl.constexpr,
):  # fmt: skip
    """Add Σ over others of slope · v (1 − tanh²) to `grad`, for one tile of owns and HIDDEN hidden units.

    An own is a query and the others are its keys, which `gather` heads share; Σ slope · tanh is then added to `met`.
    Or an own is a key, and the others are the queries of the `spread` heads that share it. The slopes are of a part of
    the queries alone, those of `own_first` or of `other_first` on, and lie [entries, others, owns]. The compiler
    may not know that their rows are aligned: it would give a thread four owns, and spread the others over the warps.
    """
    own_first, other_first = tl.multiple_of(own_first, 32), tl.multiple_of(other_first, 32)
    entry = tl.program_id(0).to(tl.int64) + own_entry
    near = tl.program_id(1) * OWNS
    unit = tl.program_id(2) * HIDDEN
    place = (entry * width + unit) * own_padded + own_first + near
    if PAIRED:
        own_sizes = tl.load(own_size + entry * own_padded + own_first + near + tl.arange(0, OWNS))
        largest = tl.max(own_sizes)
    start = tl.maximum(own_first + near + low - other_first, 0) // OTHERS * OTHERS
    stop = tl.minimum(own_first + near + OWNS + high - other_first, other_count)
    owns = near + tl.arange(0, OWNS)
    for j in range(0, spread):
        other_entry = entry // gather * spread + j
        asking = entry if QUERIES_OWN else other_entry
        v = vector + asking % heads * width + unit
        strip = slopes + (asking - first_entry) * own_count * other_count
        for far in range(start, stop, OTHERS):
            others = far + tl.arange(0, OTHERS)
            slope = tl.load(
                strip + others[:, None].to(tl.int64) * own_count + owns[None, :],
                mask=(owns < own_count)[None, :] & (others < other_count)[:, None], other=0.0,
            ).to(tl.float32) * scale  # fmt: skip
            anything = tl.max((slope != 0).to(tl.int32)) > 0 if SPARSE else True
            if anything:
                there = (other_entry * width + unit) * other_padded + other_first + far
                if PAIRED:
                    sizes = tl.load(other_size + other_entry * other_padded + other_first + others)
                    large = sizes[:, None] + own_sizes[None, :] > WIDE
                    if largest + tl.max(sizes) > WIDE:
                        paired_gradients(
                            own_exp + place, own_plain + place, own_padded,
                            other_exp + there, other_plain + there, other_padded, large,
                            slope, v, grad + place, met + place, True, QUERIES_OWN, HARDWARE, OWNS, OTHERS, HIDDEN,
                        )  # fmt: skip
                    else:
                        paired_gradients(
                            own_exp + place, own_plain + place, own_padded,
                            other_exp + there, other_plain + there, other_padded, large,
                            slope, v, grad + place, met + place, False, QUERIES_OWN, HARDWARE, OWNS, OTHERS, HIDDEN,
                        )  # fmt: skip
                else:
                    plain_gradients(
                        own_plain + place, own_padded, other_plain + there, other_padded,
                        slope, v, grad + place, met + place, QUERIES_OWN, OWNS, OTHERS, HIDDEN,
                    )  # fmt: skip


@triton.jit
@no_type_check
def paired_gradients(
    own_exp, own_plain, own_padded, other_exp, other_plain, other_padded, large, slope, vector, grad, met,
    ANY_LARGE: tl.constexpr, WITH_MET: tl.constexpr, HARDWARE: tl.constexpr,
    OWNS: tl.constexpr, OTHERS: tl.constexpr, HIDDEN: tl.constexpr,
):  # fmt: skip
    """One tile of slopes [others, owns], two hidden units at a time, which share a reciprocal.

    With ρ = 1 / (1 + E), tanh is 1 − 2ρ and 1 − tanh² is 4 ρ (1 − ρ).
    """
    owns, others = tl.arange(0, OWNS), tl.arange(0, OTHERS)
    whole = tl.sum(slope, 0)
    for r in range(0, HIDDEN, 2):
        to_left, to_right = tl.load(grad + owns), tl.load(grad + own_padded + owns)
        first = tl.load(other_exp + others)[:, None] * tl.load(own_exp + owns)[None, :] + 1.0
        other_exp += other_padded
        own_exp += own_padded
        second = tl.load(other_exp + others)[:, None] * tl.load(own_exp + owns)[None, :] + 1.0
        other_exp += other_padded
        own_exp += own_padded
        inverse = reciprocal(first * second, HARDWARE)
        left, right = second * inverse, first * inverse
        if ANY_LARGE:
            left = tl.where(large, exact_share(own_plain + owns, other_plain + others), left)
            own_plain += own_padded
            other_plain += other_padded
            right = tl.where(large, exact_share(own_plain + owns, other_plain + others), right)
            own_plain += own_padded
            other_plain += other_padded
        v, w = tl.load(vector + r) * 4.0, tl.load(vector + r + 1) * 4.0
        if WITH_MET:
            sum_left, sum_right = tl.load(met + owns), tl.load(met + own_padded + owns)
            tl.store(met + owns, sum_left + (whole - 2.0 * tl.sum(slope * left, 0)))
            tl.store(met + own_padded + owns, sum_right + (whole - 2.0 * tl.sum(slope * right, 0)))
            met += 2 * own_padded
        tl.store(grad + owns, to_left + v * tl.sum(slope * (left - left * left), 0))
        tl.store(grad + own_padded + owns, to_right + w * tl.sum(slope * (right - right * right), 0))
        grad += 2 * own_padded


@triton.jit
@no_type_check
def exact_share(own, other):
    """1 / (1 + exp(2x)) for every sum of an own and an other, however large."""
    x = tl.load(other).to(tl.float32)[:, None] + tl.load(own).to(tl.float32)[None, :]
    return 1.0 / (1.0 + tl.exp2(x * SHARPNESS))


@triton.jit
@no_type_check
def plain_gradients(
    own_plain, own_padded, other_plain, other_padded, slope, vector, grad, met,
    WITH_MET: tl.constexpr, OWNS: tl.constexpr, OTHERS: tl.constexpr, HIDDEN: tl.constexpr,
):  # fmt: skip
    """One tile of slopes [others, owns] with a `tangent` for each number."""
    owns, others = tl.arange(0, OWNS), tl.arange(0, OTHERS)
    for r in range(0, HIDDEN):
        a, b = tl.load(own_plain + owns).to(tl.float32), tl.load(other_plain + others).to(tl.float32)
        bent = tangent(b[:, None] + a[None, :])
        bend = tl.sum(slope * (1.0 - bent * bent), 0)
        tl.store(grad + owns, tl.load(grad + owns) + tl.load(vector + r) * bend)
        if WITH_MET:
            tl.store(met + owns, tl.load(met + owns) + tl.sum(slope * bent, 0))
            met += own_padded
        grad += own_padded
        own_plain += own_padded
        other_plain += other_padded
