"""Kernel that computes the exact weights of some queries on some keys."""

from typing import no_type_check

import triton
import triton.language as tl

from regard.sight.kernels.program_blocks import Scoring, Side, heads_of, limits, reach
from regard.sight.kernels.score_tiles import biased, exact, meeting, same_document


@triton.jit
@no_type_check
def cells_kernel(
    query, key, query_descriptor, key_descriptor, ranges, query_ids, key_ids, spans, slopes, query_count, key_count,
    heads, groups, share, stride_qb, stride_qh, stride_qn, stride_kb, stride_kh, stride_kn, scale, shift, low, high,
    level, rows, columns, weights,
    TALL: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    """A tile of the rectangle. `query`, `key` and the ids of documents hold the chosen positions only."""
    queries = Side(query, query_descriptor, stride_qb, stride_qh, stride_qn, query_count, query_ids)
    keys = Side(key, key_descriptor, stride_kb, stride_kh, stride_kn, key_count, key_ids)
    scoring = Scoring(ranges, spans, slopes, heads, groups, share, scale, shift, low, high)
    across = tl.cdiv(key_count, SIZE)
    tiles = tl.cdiv(query_count, TALL) * across
    entry = tl.program_id(0) // tiles
    y, x = tl.program_id(0) % tiles // across, tl.program_id(0) % tiles % across
    batch, head, kv_head = heads_of(entry, scoring, False)
    row = y * TALL + tl.arange(0, TALL)
    column = x * SIZE + tl.arange(0, SIZE)
    scores = exact(queries, keys, batch, head, kv_head, y * TALL, x * SIZE, TALL, SIZE, WIDTH, PADDED)
    i = tl.load(rows + row, mask=row < query_count, other=-1)
    j = tl.load(columns + column, mask=column < key_count, other=-1)
    slope = 0.0  # not read without slopes
    if slopes is not None:
        slope = tl.load(slopes + entry)
    _, _, first_key, last_key = limits(entry, queries, keys, scoring, False)
    nearest, farthest = reach(i, first_key, last_key, low, high)
    total = tl.load(level + entry.to(tl.int64) * query_count + row, mask=row < query_count, other=0.0)
    scores = biased(scores, scoring, slope, i[:, None], j[None, :])
    seen = meeting(j, nearest, farthest) & (total > -float("inf"))[:, None]
    if query_ids is not None:
        documents = (entry // share).to(tl.int64)
        mine = tl.load(query_ids + documents * query_count + row, mask=row < query_count, other=-1)
        theirs = tl.load(key_ids + documents * key_count + column, mask=column < key_count, other=-1)
        seen = seen & same_document(mine, theirs)
    found = tl.where(seen, tl.exp2(scores - total[:, None]), 0.0)
    at = (entry.to(tl.int64) * query_count + row)[:, None] * key_count + column[None, :]
    tl.store(weights + at, found, mask=(row < query_count)[:, None] & (column < key_count)[None, :])
