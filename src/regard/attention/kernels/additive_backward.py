"""The gradients of additive attention in Triton, without float atomics: each program owns what it writes.

The slope of each pair is computed for a bounded number of queries at a time, from scores made again; from the slopes
each query sums over the keys and each key over the queries, making the hyperbolic tangents once more. In those sums
a tile is [owns, hidden units] and stays in registers while the others pass by, one after the other.
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


@triton.jit(do_not_specialize=["k_padded"])
@no_type_check
def slopes_kernel(
    q_exp, q_plain, q_size, k_exp, k_plain, k_size, vector, value, rest, bias, seed,
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
    near, column = tl.program_id(1) * QUERIES, tl.program_id(2) * KEYS
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
    inside = near + tl.arange(0, QUERIES)
    written = (inside < some_rows)[:, None] & (columns < key_count)[None, :]
    spot = (strip * some_rows + inside[:, None]) * key_count + columns[None, :]
    opposite = (strip * key_count + columns[None, :]) * some_rows + inside[:, None]
    tl.store(slopes + spot, slope, mask=written)
    tl.store(mirrored + opposite, slope, mask=written)
    tl.store(weights + spot, used.to(weights.dtype.element_ty), mask=written)


@triton.jit(do_not_specialize=["width"])
@no_type_check
def gradient_kernel(
    own_exp, own_plain, own_size, other_exp, other_plain, other_size, vector, slopes, grad, met,
    first_entry, heads, own_groups, own_first, own_count, own_padded,
    other_groups, other_first, other_count, other_padded, width, low, high, scale, piece,
    QUERIES_OWN: tl.constexpr, PAIRED: tl.constexpr, HARDWARE: tl.constexpr,
    OWNS: tl.constexpr, OTHERS: tl.constexpr, HIDDEN: tl.constexpr,
):  # fmt: skip
    """Σ over a piece of the others of slope · v (1 − tanh²), for one tile of owns and HIDDEN hidden units.

    An own is a query and the others are keys, or the other way around; with queries, Σ slope · tanh of the tile is
    left in `met` (where hidden units are paired, Σ slope · ρ: see `pass_by`). The slopes are of a part of the queries
    alone, those from `own_first` or `other_first` on, and lie [strips, others, owns]. Each piece of the others writes
    sums of its own, so that no program waits for another and the order of additions is fixed. The compiler may not
    know that rows of hidden units are aligned: it would give a thread several units, and spread the owns over lanes.
    """
    tiles = tl.cdiv(own_count, OWNS)
    tile, strip = tl.program_id(0) % tiles, (tl.program_id(0) // tiles).to(tl.int64)
    asking, part = strip + first_entry, tl.program_id(2) * (tl.num_programs(0) // tiles) + strip
    half: tl.constexpr = HIDDEN // 2
    near = tile * OWNS + tl.arange(0, OWNS)
    units = tl.program_id(1) * HIDDEN + tl.arange(0, half)
    here, inside, inside_too = near < own_count, units < width, units + half < width
    own = asking // own_groups * own_padded + own_first + near
    place = own[:, None] * width + units[None, :]
    own_left = tl.load(own_exp + place, mask=inside[None, :], other=0.0)
    own_right = tl.load(own_exp + place + half, mask=inside_too[None, :], other=0.0)
    own_sizes = tl.load(own_size + own) if PAIRED else 0.0
    other = asking // other_groups * other_padded + other_first
    other_exp += other * width + units
    other_plain += other * width + units
    other_size += other
    pitch = tl.cast(own_count, tl.int64)
    slopes += strip * pitch * other_count + near
    ahead = own_first + tile * OWNS - other_first
    start = tl.maximum(ahead + low, tl.program_id(2) * piece)
    stop = tl.minimum(ahead + OWNS + high, tl.minimum((tl.program_id(2) + 1) * piece, other_count))

    nothing = tl.zeros([OWNS, half], tl.float32)
    bend_left, bend_right, met_left, met_right = nothing, nothing, nothing, nothing
    for far in range(start, stop, OTHERS):
        end = tl.minimum(far + OTHERS, stop)
        several = far + tl.arange(0, OTHERS)
        near_by = several < end
        # Asked of all slopes at once, which also brings them near: one by one, each would be waited for.
        block = tl.load(
            slopes[None, :] + several[:, None] * pitch, mask=near_by[:, None] & here[None, :], other=0.0
        )
        if tl.max((block != 0).to(tl.int32)) > 0:
            wide = False
            if PAIRED:
                wide = (
                    tl.max(own_sizes) + tl.max(tl.load(other_size + several, mask=near_by, other=0.0)) > WIDE
                )
            if not PAIRED:  # a sum for these others first, which rounds less than one over all
                old, old_too, old_met, old_met_too = bend_left, bend_right, met_left, met_right
                bend_left, bend_right, met_left, met_right = nothing, nothing, nothing, nothing
            if wide:
                bend_left, bend_right, met_left, met_right = pass_by(
                    bend_left, bend_right, met_left, met_right, own_left, own_right, own_sizes, own_plain + place,
                    other_exp, other_plain, other_size, slopes, far, end, pitch, width, here, inside, inside_too,
                    half, True, PAIRED, QUERIES_OWN, HARDWARE,
                )  # fmt: skip
            else:
                bend_left, bend_right, met_left, met_right = pass_by(
                    bend_left, bend_right, met_left, met_right, own_left, own_right, own_sizes, own_plain + place,
                    other_exp, other_plain, other_size, slopes, far, end, pitch, width, here, inside, inside_too,
                    half, False, PAIRED, QUERIES_OWN, HARDWARE,
                )  # fmt: skip
            if not PAIRED:
                bend_left, bend_right = bend_left + old, bend_right + old_too
                met_left, met_right = met_left + old_met, met_right + old_met_too
    steep = scale * 4.0 if PAIRED else scale
    vector += asking % heads * width + units
    v, w = tl.load(vector, mask=inside, other=0.0), tl.load(vector + half, mask=inside_too, other=0.0)
    grad += (part * own_count + near[:, None]) * width + units[None, :]
    tl.store(grad, bend_left * (v * steep)[None, :], mask=here[:, None] & inside[None, :])
    tl.store(grad + half, bend_right * (w * steep)[None, :], mask=here[:, None] & inside_too[None, :])
    if QUERIES_OWN:
        met += (part * tiles + tile) * width + units
        tl.store(met, tl.sum(met_left, 0), mask=inside)
        tl.store(met + half, tl.sum(met_right, 0), mask=inside_too)


@triton.jit
@no_type_check
def pass_by(
    bend_left, bend_right, met_left, met_right, own_left, own_right, own_sizes, own_plain,
    other_exp, other_plain, other_size, slopes, far, end, pitch, width, here, inside, inside_too,
    half: tl.constexpr, ANY_LARGE: tl.constexpr, PAIRED: tl.constexpr, WITH_MET: tl.constexpr,
    HARDWARE: tl.constexpr,
):  # fmt: skip
    """The four sums with the others from `far` to `end` in them.

    A unit of the left half and one of the right share a reciprocal: with ρ = 1 / (1 + E), tanh is 1 − 2ρ and
    1 − tanh² is 4 (ρ − ρ²), so the sums are of ρ − ρ² and ρ. In float32 they are of 1 − tanh² and tanh.
    """
    pace = tl.cast(width, tl.int64)
    next_left = tl.load(other_exp + far * pace, mask=inside, other=0.0)
    next_right = tl.load(other_exp + far * pace + half, mask=inside_too, other=0.0)
    for one in range(far, end):
        a, b = next_left[None, :], next_right[None, :]
        slope = tl.load(slopes + one * pitch, mask=here, other=0.0)[:, None]
        ahead = other_exp + tl.minimum(one + 1, end - 1) * pace  # a turn early, to wait less
        next_left = tl.load(ahead, mask=inside, other=0.0)
        next_right = tl.load(ahead + half, mask=inside_too, other=0.0)
        if PAIRED:
            first, second = own_left * a + 1.0, own_right * b + 1.0
            inverse = reciprocal(first * second, HARDWARE)
            left, right = second * inverse, first * inverse
            if ANY_LARGE:
                large = (own_sizes + tl.load(other_size + one) > WIDE)[:, None]
                left = tl.where(large, exact_share(own_plain, other_plain + one * pace, inside), left)
                right = tl.where(
                    large, exact_share(own_plain + half, other_plain + one * pace + half, inside_too), right
                )
            bend_left += slope * (left - left * left)
            bend_right += slope * (right - right * right)
        else:
            left, right = tangent(own_left + a), tangent(own_right + b)
            bend_left += slope * (1.0 - left * left)
            bend_right += slope * (1.0 - right * right)
        if WITH_MET:
            met_left += slope * left
            met_right += slope * right
    return bend_left, bend_right, met_left, met_right


@triton.jit
@no_type_check
def exact_share(own, other, inside):
    """1 / (1 + exp(2x)) for every sum of an own and an other, however large."""
    a = tl.load(own, mask=inside[None, :], other=0.0).to(tl.float32)
    x = a + tl.load(other, mask=inside, other=0.0).to(tl.float32)[None, :]
    return 1.0 / (1.0 + tl.exp2(x * SHARPNESS))
