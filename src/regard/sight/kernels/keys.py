"""A program owns some keys and goes over the queries that look at them: the mass received, and the cells of a map.

Every weight is 2^(score − level) for the log-sum-exp of its query, which `rows` has found. Sums run over queries, so
they stay inside a program: nothing is added atomically, and the answer has the same bits every time.
"""

from typing import no_type_check

import triton
import triton.language as tl

from regard.sight.kernels.score_tiles import (
    biased,
    bring,
    exact,
    laned,
    limits,
    meeting,
    place,
    reach,
    stretch,
    summed,
    turn,
)


@triton.jit
@no_type_check
def ending(band, height, queries):
    """One past the last query of a band of the map; the last band never ends."""
    end = ((band + 1).to(tl.int64) * queries + height - 1) // height
    return tl.where(band + 1 < height, end, 2147483647).to(tl.int32)


@triton.jit
@no_type_check
def flush(
    got,
    band,
    sums,
    cells,
    entry,
    tile,
    tiles,
    height,
    queries,
    column,
    MAP: tl.constexpr,
    SEGMENTS: tl.constexpr,
):
    """Write what a band of queries gave to the keys of this program, summed by columns of the map; begin the next."""
    segments = tl.arange(0, SEGMENTS)
    if MAP < 2:
        lanes: tl.constexpr = sums.shape[0] * sums.shape[1] // SEGMENTS
        masses = tl.sum(tl.reshape(tl.where((column >= 0)[:, None], sums, 0.0), (SEGMENTS, lanes)), 1)
        edge = (band + 2) * (queries // height)
        edge = tl.where(band + 2 < height, edge, 2147483647)
    else:
        masses = tl.where(column >= 0, tl.sum(sums, 1), 0.0)
        masses = tl.sum(tl.where(column[:, None] == segments[None, :], masses[:, None], 0.0), 0)
        edge = ending(band + 1, height, queries)
    at = ((entry.to(tl.int64) * height + band) * tiles + tile) * SEGMENTS
    tl.store(cells + at + segments, masses)
    return got + sums, band + 1, edge, tl.zeros_like(sums)


@triton.jit
@no_type_check
def gather(
    k, key, query, query_descriptor, level, batch, head, kv_head, position, nearest, farthest, asking, asked,
    start, stop, queries, keys, stride_qb, stride_qh, stride_qn, stride_kb, stride_kh, stride_kn,
    scale, slope, move, got, band, edge, sums, cells, entry, tile, tiles, height, column,
    TALL: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, ROOM: tl.constexpr, EXACT: tl.constexpr,
    SLOPED: tl.constexpr, PACKED: tl.constexpr, MASKED: tl.constexpr, MAP: tl.constexpr, BANDED: tl.constexpr,
    SEGMENTS: tl.constexpr, LANES: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Go over the queries from `start` to `stop`."""
    for begin in tl.range(start, stop, SIZE, num_stages=STAGES):
        begin = tl.multiple_of(begin, SIZE)
        if EXACT:
            scores = exact(
                key, query, batch, kv_head, head, tile * TALL, begin, keys, queries,
                stride_kb, stride_kh, stride_kn, stride_qb, stride_qh, stride_qn, TALL, SIZE, WIDTH, ROOM,
            )  # fmt: skip
        else:
            q = bring(
                query,
                query_descriptor,
                batch,
                head,
                begin,
                queries,
                stride_qb,
                stride_qh,
                stride_qn,
                SIZE,
                WIDTH,
                ROOM,
            )
            scores = tl.dot(k, tl.trans(q))
        row = begin + tl.arange(0, SIZE)
        total = tl.load(level + row, mask=row < queries, other=0.0) if MASKED else tl.load(level + row)
        scores = biased(scores, scale, slope, row[None, :] + move, position[:, None], SLOPED)
        weights = tl.exp2(scores - total[None, :])
        if MASKED:
            mine = row  # never read when there are no documents
            if PACKED:
                mine = tl.load(asking + row, mask=row < queries, other=-1)
            weights = tl.where(meeting(row, nearest, farthest, asked, mine, PACKED), weights, 0.0)
        if MAP == 0:
            got += summed(laned(weights, LANES))
        else:
            inside = begin + SIZE < edge
            if MAP == 1:  # bands end where tiles do
                sums += summed(laned(weights, LANES))
                if BANDED or not inside:  # a branch costs more than the rest of it
                    got, band, edge, sums = flush(
                        got, band, sums, cells, entry, tile, tiles, height, queries, column, MAP, SEGMENTS
                    )
            elif inside:
                sums += summed(laned(weights, LANES))
            else:
                if MAP == 3:  # many bands in a tile
                    while begin + SIZE > edge:
                        sums += summed(laned(tl.where((row < edge)[None, :], weights, 0.0), LANES))
                        weights = tl.where((row < edge)[None, :], 0.0, weights)
                        got, band, edge, sums = flush(
                            got, band, sums, cells, entry, tile, tiles, height, queries, column, MAP, SEGMENTS
                        )
                    sums += summed(laned(weights, LANES))
                else:  # two bands, or one that ends with the tile
                    before = (row < edge)[None, :]
                    sums += summed(laned(tl.where(before, weights, 0.0), LANES))
                    got, band, edge, sums = flush(
                        got, band, sums, cells, entry, tile, tiles, height, queries, column, MAP, SEGMENTS
                    )
                    sums += summed(laned(tl.where(before, 0.0, weights), LANES))
    return got, band, edge, sums


@triton.jit(do_not_specialize=["beside"])
@no_type_check
def keys_kernel(
    query, query_descriptor, key, level, ranges, asking, asked, spans, slopes, received, cells,
    queries, keys, heads, groups, share, beside, height, width,
    stride_qb, stride_qh, stride_qn, stride_kb, stride_kh, stride_kn, scale, move, low, high,
    TALL: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, ROOM: tl.constexpr, EXACT: tl.constexpr,
    SLOPED: tl.constexpr, LOW: tl.constexpr, HIGH: tl.constexpr, PACKED: tl.constexpr, MAP: tl.constexpr,
    BANDED: tl.constexpr, SEGMENTS: tl.constexpr, LANES: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """What TALL keys get from the queries of one head."""
    tiles = tl.cdiv(keys, TALL)
    entry, tile = turn(tiles, beside)
    batch, head, kv_head = place(entry, heads, groups)
    position = tile * TALL + tl.arange(0, TALL)
    real = position < keys
    first_query, last_query, first_key, last_key = limits(ranges, entry, queries, keys)
    lowest = tl.maximum(tile * TALL, first_key)
    highest = tl.minimum(tile * TALL + TALL, last_key) - 1
    mine = asking
    theirs = position  # never read when there are no documents
    span = spans
    if PACKED:
        mine = asking + (entry // share).to(tl.int64) * queries
        theirs = tl.load(asked + (entry // share).to(tl.int64) * keys + position, mask=real, other=-1)
        span = spans + ((entry // share) * tiles + tile) * 2
    # Seen from a key, a band of keys − queries is one of queries − keys the other way round.
    start, open_start, open_stop, stop = stretch(
        lowest, highest, first_query, last_query, -high, -low, span, SIZE, HIGH, LOW, PACKED
    )
    nearest, farthest = reach(position, first_query, last_query, -high, -low, HIGH, LOW)
    slope = 0.0
    if SLOPED:
        slope = tl.load(slopes + entry)
    k = 0  # never read where products are exact
    if not EXACT:
        k = bring(
            key, None, batch, kv_head, tile * TALL, keys, stride_kb, stride_kh, stride_kn, TALL, WIDTH, ROOM
        )
    got = tl.zeros([TALL, LANES], tl.float32)
    sums = tl.zeros([TALL, LANES], tl.float32)
    band = 0  # never read when there is no map
    edge = 0
    column = position
    if MAP > 0:
        band = (start.to(tl.int64) * height // queries).to(tl.int32)
        edge = ending(band, height, queries)
        columns = (position.to(tl.int64) * width // keys).to(tl.int32)
        column = tl.where(
            (position >= first_key) & (position < last_key),
            columns - ((tile * TALL).to(tl.int64) * width // keys).to(tl.int32),
            -1,
        )
    for part in tl.static_range(3):
        # Before the open queries, the open ones, and after them: only the open ones may all look at all these keys.
        if part == 0:
            begin, end = start, open_start
        elif part == 1:
            begin, end = open_start, open_stop
        else:
            begin, end = open_stop, stop
        got, band, edge, sums = gather(
            k, key, query, query_descriptor, level + entry.to(tl.int64) * queries, batch, head, kv_head,
            position, nearest, farthest, mine, theirs, begin, end, queries, keys,
            stride_qb, stride_qh, stride_qn, stride_kb, stride_kh, stride_kn, scale, slope, move, got, band, edge, sums,
            cells, entry, tile, tiles, height, column,
            TALL, SIZE, WIDTH, ROOM, EXACT, SLOPED, PACKED, part != 1, MAP, BANDED, SEGMENTS, LANES, STAGES,
        )  # fmt: skip
    if MAP > 0:  # noqa: SIM102  # the one is known to the compiler, the other is not
        if (stop > start) & (band < height):
            got, band, edge, sums = flush(
                got, band, sums, cells, entry, tile, tiles, height, queries, column, MAP, SEGMENTS
            )
    seen = (position >= first_key) & (position < last_key)
    tl.store(received + entry.to(tl.int64) * keys + position, tl.where(seen, tl.sum(got, 1), 0.0), mask=real)
