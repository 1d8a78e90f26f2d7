"""The exact weights of some queries on some keys."""

from typing import no_type_check

import triton
import triton.language as tl

from regard.sight.kernels.score_tiles import biased, exact, limits, meeting, place, reach


@triton.jit
@no_type_check
def cells_kernel(
    query, key, level, ranges, asking, asked, slopes, rows, columns, weights,
    queries, keys, heads, groups, share,
    stride_qb, stride_qh, stride_qn, stride_kb, stride_kh, stride_kn, scale, move, low, high,
    TALL: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, ROOM: tl.constexpr, SLOPED: tl.constexpr,
    LOW: tl.constexpr, HIGH: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """A tile of the rectangle. `query`, `key` and the ids of documents hold the chosen positions only."""
    down = tl.cdiv(queries, TALL)
    across = tl.cdiv(keys, SIZE)
    entry = tl.program_id(0) // (down * across)
    rest = tl.program_id(0) % (down * across)
    y, x = rest // across, rest % across
    batch, head, kv_head = place(entry, heads, groups)
    row = y * TALL + tl.arange(0, TALL)
    column = x * SIZE + tl.arange(0, SIZE)
    scores = exact(
        query, key, batch, head, kv_head, y * TALL, x * SIZE, queries, keys,
        stride_qb, stride_qh, stride_qn, stride_kb, stride_kh, stride_kn, TALL, SIZE, WIDTH, ROOM,
    )  # fmt: skip
    i = tl.load(rows + row, mask=row < queries, other=-1)
    j = tl.load(columns + column, mask=column < keys, other=-1)
    mine, theirs = i, j  # never read when there are no documents
    if PACKED:
        mine = tl.load(asking + (entry // share).to(tl.int64) * queries + row, mask=row < queries, other=-1)
        theirs = tl.load(asked + (entry // share).to(tl.int64) * keys + column, mask=column < keys, other=-1)
    slope = 0.0
    if SLOPED:
        slope = tl.load(slopes + entry)
    _, _, first_key, last_key = limits(ranges, entry, queries, keys)
    nearest, farthest = reach(i, first_key, last_key, low, high, LOW, HIGH)
    total = tl.load(level + entry.to(tl.int64) * queries + row, mask=row < queries, other=0.0)
    looking = total > -float("inf")
    scores = biased(scores, scale, slope, (i + move)[:, None], j[None, :], SLOPED)
    seen = meeting(j, nearest, farthest, mine, theirs, PACKED) & looking[:, None]
    found = tl.where(seen, tl.exp2(scores - total[:, None]), 0.0)
    at = (entry.to(tl.int64) * queries + row)[:, None] * keys + column[None, :]
    tl.store(weights + at, found, mask=(row < queries)[:, None] & (column < keys)[None, :])
