"""Kernel whose programs own keys and loop over the queries that look at them: received mass, and the cells of a map.

Every weight is 2^(score − level), where `level` is the log-sum-exp of its query. Sums run over queries, so they stay
inside a program: nothing is added atomically, and the result has the same bits every time.
"""

from typing import no_type_check

import triton
import triton.language as tl

from regard.sight.kernels.program_blocks import Scoring, Side, counted, owned, part_of
from regard.sight.kernels.score_tiles import biased, laned, own_tile, products, summed, visible


@triton.jit
@no_type_check
def ending(band, height, queries):
    """One past the last query of a band of the map; the last band never ends."""
    end = ((band + 1).to(tl.int64) * queries + height - 1) // height
    return tl.where(band + 1 < height, end, 2147483647).to(tl.int32)


@triton.jit
@no_type_check
def flush(got, band, sums, cells, height, queries, column, MAP: tl.constexpr, SEGMENTS: tl.constexpr):
    """Store what a band of queries gave to the keys of this program, summed by columns of the map; begin the next."""
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
    pointer, entry, index, tiles = cells
    at = ((entry.to(tl.int64) * height + band) * tiles + index) * SEGMENTS
    tl.store(pointer + at + segments, masses)
    return got + sums, band + 1, edge, tl.zeros_like(sums)


@triton.jit
@no_type_check
def gather(
    k, queries, keys, scoring, block, level, begin, end, got, band, edge, sums, cells, height, column,
    MASKED: tl.constexpr, MAP: tl.constexpr, BANDED: tl.constexpr, SEGMENTS: tl.constexpr, LANES: tl.constexpr,
    STAGES: tl.constexpr,
    TALL: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, PADDED: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """Loop over the queries from `begin` to `end`."""
    for start in tl.range(begin, end, SIZE, num_stages=STAGES):
        start = tl.multiple_of(start, SIZE)
        scores = products(k, keys, queries, block, start, TALL, SIZE, WIDTH, PADDED, EXACT)
        row = start + tl.arange(0, SIZE)
        total = tl.load(level + row, mask=row < queries.count, other=0.0) if MASKED else tl.load(level + row)
        scores = biased(scores, scoring, block.slope, row[None, :], block.position[:, None])
        weights = tl.exp2(scores - total[None, :])
        if MASKED:
            weights = tl.where(visible(block, queries, row), weights, 0.0)
        if MAP == 0:
            got += summed(laned(weights, LANES))
        else:
            inside = start + SIZE < edge
            if MAP == 1:  # bands end where tiles do
                sums += summed(laned(weights, LANES))
                if BANDED or not inside:  # a branch costs more than the rest of it
                    got, band, edge, sums = flush(
                        got, band, sums, cells, height, queries.count, column, MAP, SEGMENTS
                    )
            elif inside:
                sums += summed(laned(weights, LANES))
            else:
                if MAP == 3:  # many bands in a tile
                    while start + SIZE > edge:
                        sums += summed(laned(tl.where((row < edge)[None, :], weights, 0.0), LANES))
                        weights = tl.where((row < edge)[None, :], 0.0, weights)
                        got, band, edge, sums = flush(
                            got, band, sums, cells, height, queries.count, column, MAP, SEGMENTS
                        )
                    sums += summed(laned(weights, LANES))
                else:  # two bands, or one that ends with the tile
                    before = (row < edge)[None, :]
                    sums += summed(laned(tl.where(before, weights, 0.0), LANES))
                    got, band, edge, sums = flush(
                        got, band, sums, cells, height, queries.count, column, MAP, SEGMENTS
                    )
                    sums += summed(laned(tl.where(before, 0.0, weights), LANES))
    return got, band, edge, sums


@triton.jit(do_not_specialize=["beside"])
@no_type_check
def keys_kernel(
    query, key, query_descriptor, key_descriptor, ranges, query_ids, key_ids, spans, slopes, query_count, key_count,
    heads, groups, share, stride_qb, stride_qh, stride_qn, stride_kb, stride_kh, stride_kn, scale, shift, low, high,
    beside, level, received, cells, height, width,
    TALL: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, PADDED: tl.constexpr, EXACT: tl.constexpr,
    MAP: tl.constexpr, BANDED: tl.constexpr, SEGMENTS: tl.constexpr, LANES: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """What TALL keys get from the queries of one head. MAP: 0 none, bands of queries 1 of whole tiles, 2 at most two in
    a tile, 3 many.
    """
    queries = Side(query, query_descriptor, stride_qb, stride_qh, stride_qn, query_count, query_ids)
    keys = Side(key, key_descriptor, stride_kb, stride_kh, stride_kn, key_count, key_ids)
    scoring = Scoring(ranges, spans, slopes, heads, groups, share, scale, shift, low, high)
    block = owned(keys, queries, scoring, None, beside, True, TALL, SIZE)
    k = own_tile(keys, block, TALL, WIDTH, PADDED, EXACT)
    got = tl.zeros([TALL, LANES], tl.float32)
    sums = tl.zeros([TALL, LANES], tl.float32)
    band = 0  # not read without a map
    edge = 0
    column = block.position
    if MAP > 0:
        band = (block.start.to(tl.int64) * height // query_count).to(tl.int32)
        edge = ending(band, height, query_count)
        columns = (block.position.to(tl.int64) * width // key_count).to(tl.int32)
        first = ((block.index * TALL).to(tl.int64) * width // key_count).to(tl.int32)
        column = tl.where(counted(block), columns - first, -1)
    level += block.entry.to(tl.int64) * query_count
    place = (cells, block.entry, block.index, tl.cdiv(key_count, TALL))
    for part in tl.static_range(3):
        begin, end = part_of(block.start, block.open_start, block.open_stop, block.stop, part)
        got, band, edge, sums = gather(
            k, queries, keys, scoring, block, level, begin, end, got, band, edge, sums, place, height, column,
            part != 1, MAP, BANDED, SEGMENTS, LANES, STAGES,
            TALL, SIZE, WIDTH, PADDED, EXACT,
        )  # fmt: skip
    if MAP > 0:  # noqa: SIM102  # the one is known to the compiler, the other is not
        if (block.stop > block.start) & (band < height):
            got, band, edge, sums = flush(got, band, sums, place, height, query_count, column, MAP, SEGMENTS)
    at = block.entry.to(tl.int64) * key_count + block.row
    tl.store(received + at, tl.where(counted(block), tl.sum(got, 1), 0.0), mask=block.real)
