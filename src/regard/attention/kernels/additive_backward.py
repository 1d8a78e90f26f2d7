"""The gradients of additive attention in Triton, without float atomics: each program owns what it writes.

The slope of each pair is computed for a bounded number of pairs at a time (`additive_slopes`). From the slopes one pass
makes each hyperbolic tangent once more, for the gradients of both its query and its key: a warp keeps the sums of a
tile of queries, [queries, hidden units], in registers while the keys pass by, one after the other, and leaves for each
key what it gets from the tile. No thread waits for another. `gather_kernel` sums what was left.
"""

# mypy: ignore-errors

from typing import no_type_check

import triton
import triton.language as tl

from regard.attention.kernels.additive_tiles import SHARPNESS, WIDE, reciprocal, tangent


@triton.jit(do_not_specialize=["shift"])
@no_type_check
def gradient_kernel(
    q_exp, q_plain, q_size, k_exp, k_plain, k_size, vector, slopes, to_query, to_key, met,
    first_entry, heads, groups, first_row, row_count, q_padded, first_key, some_keys, key_count, k_padded,
    shift, low, high, scale, piece,
    PAIRED: tl.constexpr, HARDWARE: tl.constexpr, WIDTH: tl.constexpr,
    QUERIES: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, UNITS: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """Σ slope · v (1 − tanh²) for a tile of queries over a piece of the keys, and for each such key over the tile.

    Slopes are stored as [strips, keys, queries], in whole tiles, and are of the queries from `first_row` and the keys from
    `first_key` on. Each program writes sums of its own, so that none waits for another and the order of additions is
    fixed; where all slopes of a block of keys are 0 it writes zeros, and where the band is elsewhere nothing. In `met`
    it leaves Σ slope · tanh, or −½ of it where queries are paired. `shift` is 0, and stops the compiler from knowing how rows of hidden units are
    aligned: it would give a thread several units, and spread the queries over lanes.
    """
    tiles = row_count // QUERIES
    tile, strip = tl.program_id(0) % tiles, (tl.program_id(0) // tiles).to(tl.int64)
    asking = strip + first_entry
    near = tl.arange(0, ROWS)
    units = tl.program_id(1) * UNITS + tl.arange(0, UNITS)
    inside = units < WIDTH
    own = asking * q_padded + first_row + tile * QUERIES
    place = shift + near[:, None] * WIDTH + units[None, :]
    q_exp += own * WIDTH + place
    q_plain += own * WIDTH + place
    q_size += own + near
    shared = asking // groups * k_padded + first_key
    k_exp += shift + shared * WIDTH + units
    k_plain += shift + shared * WIDTH + units
    k_size += shared
    pitch = tl.cast(row_count, tl.int64)
    slopes += strip * pitch * key_count + tile * QUERIES
    v = tl.load(vector + shift + asking % heads * WIDTH + units, mask=inside, other=0.0) * scale
    v = v * 4.0 if PAIRED else v
    to_key += shift + (strip * tiles + tile) * key_count * WIDTH + units
    ahead = first_row + tile * QUERIES - first_key
    start = tl.maximum(tl.maximum(ahead + low, 0) // KEYS * KEYS, tl.program_id(2) * piece)
    stop = tl.minimum(ahead + QUERIES + high, tl.minimum((tl.program_id(2) + 1) * piece, some_keys))
    part = strip * tl.num_programs(2) + tl.program_id(2)
    met += shift + (part * tiles + tile) * WIDTH + units
    to_query += (part * row_count + tile * QUERIES) * WIDTH + place
    met_sum = tl.zeros([ROWS, UNITS], tl.float32)
    if start >= stop:
        tl.store(met, tl.sum(met_sum, 0), mask=inside)
        return

    largest = 0.0
    owns, bends = (), ()
    for i in tl.static_range(QUERIES // ROWS):
        owns += (tl.load(q_exp + i * ROWS * WIDTH, mask=inside[None, :], other=0.0),)
        bends += (tl.zeros([ROWS, UNITS], tl.float32),)
        if PAIRED:
            largest = tl.maximum(largest, tl.max(tl.load(q_size + i * ROWS)))
    for far in range(start, stop, KEYS):
        several, end = far + tl.arange(0, KEYS), tl.minimum(far + KEYS, stop)
        # All slopes at once, which also brings them near: one by one, each would be waited for.
        block = tl.load(slopes + several[:, None] * pitch + tl.arange(0, QUERIES)[None, :])
        if tl.max((block != 0).to(tl.int32)) > 0:
            wide = False
            if PAIRED:
                wide = largest + tl.max(tl.load(k_size + several)) > WIDE
            if wide:
                bends, met_sum = pass_by(
                    bends, met_sum, owns, q_plain, q_size, k_exp, k_plain, k_size, slopes, to_key, v,
                    far, end, pitch, inside, WIDTH, QUERIES, ROWS, UNITS, 1, True, PAIRED, HARDWARE,
                )  # fmt: skip
            else:
                bends, met_sum = pass_by(
                    bends, met_sum, owns, q_plain, q_size, k_exp, k_plain, k_size, slopes, to_key, v,
                    far, end, pitch, inside, WIDTH, QUERIES, ROWS, UNITS, UNROLL, False, PAIRED, HARDWARE,
                )  # fmt: skip
        else:
            spot = to_key + several[:, None] * WIDTH
            tl.store(spot, tl.zeros([KEYS, UNITS], tl.float32), mask=inside[None, :])
    for i in tl.static_range(QUERIES // ROWS):
        tl.store(to_query + i * ROWS * WIDTH, bends[i] * v[None, :], mask=inside[None, :])
    tl.store(met, tl.sum(met_sum, 0), mask=inside)


@triton.jit
@no_type_check
def pass_by(
    bends, met_sum, owns, q_plain, q_size, k_exp, k_plain, k_size, slopes, to_key, v, far, end, pitch, inside,
    WIDTH: tl.constexpr, QUERIES: tl.constexpr, ROWS: tl.constexpr, UNITS: tl.constexpr,
    UNROLL: tl.constexpr, ANY_LARGE: tl.constexpr, PAIRED: tl.constexpr, HARDWARE: tl.constexpr,
):  # fmt: skip
    """The sums with the keys from `far` to `end` in them; what each of the keys gets is written.

    A few rows at a time, or what is in between would not fit in registers. Two queries share a reciprocal: with
    ρ = 1 / (1 + E), ρ − ½ is −½ tanh and ¼ − (ρ − ½)² is ¼ (1 − tanh²). In float32 the sums are of tanh and 1 − tanh².
    """
    near = tl.arange(0, ROWS)
    before, met_before = bends, met_sum
    if not PAIRED:  # a sum over these keys first, which rounds less than one over all
        bends, met_sum = (), tl.zeros([ROWS, UNITS], tl.float32)
        for _ in tl.static_range(QUERIES // ROWS):
            bends += (tl.zeros([ROWS, UNITS], tl.float32),)
    coming = tl.load(k_exp + far * WIDTH, mask=inside, other=0.0)
    for one in tl.range(far, end, loop_unroll_factor=UNROLL):
        key = coming[None, :]
        coming = tl.load(k_exp + tl.minimum(one + 1, end - 1) * WIDTH, mask=inside, other=0.0)  # a turn early
        heard = tl.zeros([ROWS, UNITS], tl.float32)
        news = ()
        for i in tl.static_range(0, QUERIES // ROWS, 2):
            slope = tl.load(slopes + one * pitch + i * ROWS + near)[:, None]
            slope_too = tl.load(slopes + one * pitch + (i + 1) * ROWS + near)[:, None]
            if PAIRED:
                first, second = owns[i] * key + 1.0, owns[i + 1] * key + 1.0
                if ANY_LARGE:
                    at = tl.load(k_size + one)
                    large = (tl.load(q_size + i * ROWS) + at > WIDE)[:, None]
                    large_too = (tl.load(q_size + (i + 1) * ROWS) + at > WIDE)[:, None]
                    first, second = tl.where(large, 1.0, first), tl.where(large_too, 1.0, second)
                inverse = reciprocal(first * second, HARDWARE)
                left, right = second * inverse - 0.5, first * inverse - 0.5
                if ANY_LARGE:
                    other = k_plain + one * WIDTH
                    left = tl.where(large, exact_share(q_plain + i * ROWS * WIDTH, other, inside) - 0.5, left)
                    right = tl.where(
                        large_too, exact_share(q_plain + (i + 1) * ROWS * WIDTH, other, inside) - 0.5, right
                    )
                steep, steep_too = 0.25 - left * left, 0.25 - right * right
            else:
                left, right = tangent(owns[i] + key), tangent(owns[i + 1] + key)
                steep, steep_too = 1.0 - left * left, 1.0 - right * right
            news += (bends[i] + slope * steep, bends[i + 1] + slope_too * steep_too)
            heard += slope * steep
            heard += slope_too * steep_too
            met_sum += slope * left
            met_sum += slope_too * right
        bends = news
        tl.store(to_key + one * WIDTH, tl.sum(heard, 0) * v, mask=inside)
    if not PAIRED:
        news = ()
        for i in tl.static_range(QUERIES // ROWS):
            news += (before[i] + bends[i],)
        bends, met_sum = news, met_before + met_sum
    return bends, met_sum


@triton.jit
@no_type_check
def gather_kernel(
    parts, sums, groups, pieces, piece, first_row, first_key, first, some, padded, count, low, high,
    OF_KEYS: tl.constexpr, WIDTH: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
    PIECES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Adds up, in their order, what `gradient_kernel` left for some keys, tile of queries by tile, or for some queries.

    `parts` is [strips, pieces, padded, WIDTH]: a piece is a tile of queries, or some keys. `sums` gets those from
    `first` on. What was not written, because the band is elsewhere, is not read.
    """
    blocks = tl.cdiv(some * WIDTH, BLOCK)
    entry = (tl.program_id(0) // blocks).to(tl.int64)
    place = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    inside = (place < some * WIDTH)[None, :]
    row = (place // WIDTH)[None, :]
    sums += (entry * count + first) * WIDTH + place
    total = tl.load(sums, mask=place < some * WIDTH, other=0.0)
    for strip in range(entry * groups, (entry + 1) * groups):
        for start in range(0, pieces, PIECES):
            one = start + tl.arange(0, PIECES)[:, None]
            if OF_KEYS:
                ahead, least, most = first_row + one * QUERIES - first_key, row, row // KEYS * KEYS + KEYS
            else:
                ahead = first_row + row // QUERIES * QUERIES - first_key
                least, most = one * piece, (one + 1) * piece
            written = inside & (one < pieces) & (most > ahead + low) & (least < ahead + QUERIES + high)
            spot = (strip * pieces + one) * padded * WIDTH + place[None, :]
            total += tl.sum(tl.load(parts + spot, mask=written, other=0.0), 0)
    tl.store(sums, total, mask=place < some * WIDTH)


@triton.jit
@no_type_check
def exact_share(own, other, inside):
    """1 / (1 + exp(2x)) for every sum of an own and an other, however large."""
    a = tl.load(own, mask=inside[None, :], other=0.0).to(tl.float32)
    x = a + tl.load(other, mask=inside, other=0.0).to(tl.float32)[None, :]
    return 1.0 / (1.0 + tl.exp2(x * SHARPNESS))
