"""What every kernel does with a tile: bring it in, and turn products into scores, hiding the pairs that may not look.

Scores are in units of log 2 throughout, so that exp and log are the base-2 ones the hardware has.
"""

from typing import no_type_check

import triton
import triton.language as tl

HIDDEN = tl.constexpr(-1.0e30)  # finite, so that 0 · score is 0 and not NaN


@triton.jit
@no_type_check
def bring(
    pointer,
    descriptor,
    batch,
    head,
    start,
    stop,
    stride_batch,
    stride_head,
    stride,
    SIZE: tl.constexpr,
    width,
    ROOM: tl.constexpr,
):
    """Rows start … start + SIZE of a [batch, head, position, width] tensor; zeros from `stop` and from `width` on."""
    if descriptor is not None:
        return descriptor.load([batch, head, start, 0]).reshape(SIZE, ROOM)
    rows = tl.arange(0, SIZE)
    parts = tl.arange(0, ROOM)
    first = (
        pointer
        + batch.to(tl.int64) * stride_batch
        + head.to(tl.int64) * stride_head
        + tl.cast(start, tl.int64) * stride
    )
    inside = (rows < stop - start)[:, None] & (parts < width)[None, :]
    return tl.load(first + rows[:, None] * stride + parts[None, :], mask=inside, other=0.0)


@triton.jit
@no_type_check
def turn(blocks, beside):
    """The entry and the block of this program, when so many entries are gone over `beside` one another."""
    together = tl.program_id(0) // (blocks * beside)
    rest = tl.program_id(0) % (blocks * beside)
    count = tl.minimum(beside, tl.num_programs(0) // blocks - together * beside)
    return together * beside + rest % count, rest // count


@triton.jit
@no_type_check
def place(entry, heads, groups):
    """The batch entry, the query head and the key head of a program's entry."""
    batch = entry // heads
    head = entry % heads
    return batch, head, head // groups


@triton.jit
@no_type_check
def limits(ranges, entry, queries, keys):
    """The first query that counts, one past the last, and the same of the keys."""
    if ranges is None:
        return entry * 0, entry * 0 + queries, entry * 0, entry * 0 + keys
    else:
        at = ranges + entry * 4
        return tl.load(at), tl.load(at + 1), tl.load(at + 2), tl.load(at + 3)


@triton.jit
@no_type_check
def exact(
    first, second, batch, head, second_head, start, second_start, stop, second_stop,
    stride_batch, stride_head, stride, second_stride_batch, second_stride_head, second_stride,
    TALL: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, ROOM: tl.constexpr,
):  # fmt: skip
    """The products of two tiles in true float32, not in tf32, a few columns at a time: whole rows fill the registers."""
    found = tl.zeros([TALL, SIZE], tl.float32)
    for at in range(0, ROOM, 16):  # not unrolled, which would compile for minutes
        a = bring(
            first + at,
            None,
            batch,
            head,
            start,
            stop,
            stride_batch,
            stride_head,
            stride,
            TALL,
            WIDTH - at,
            16,
        )
        b = bring(
            second + at, None, batch, second_head, second_start, second_stop,
            second_stride_batch, second_stride_head, second_stride, SIZE, WIDTH - at, 16,
        )  # fmt: skip
        found = tl.dot(a.to(tl.float32), tl.trans(b.to(tl.float32)), found, input_precision="ieee")
    return found


@triton.jit
@no_type_check
def biased(products, scale, slope, queries, keys, SLOPED: tl.constexpr):
    """Scores of a tile; `queries` and `keys` are positions that broadcast over it."""
    if SLOPED:
        return products * scale - slope * tl.abs(queries.to(tl.float32) - keys.to(tl.float32))
    return products * scale


@triton.jit
@no_type_check
def laned(tile, LANES: tl.constexpr):
    """A tile with its columns as [run, lane, pair], as a tensor core leaves them: 2 · LANES columns a run, two a lane.

    A sum over runs and pairs needs nothing from another lane; lanes meet when all tiles are done.
    """
    return tl.reshape(tile, (tile.shape[0], tile.shape[1] // (2 * LANES), LANES, 2))


@triton.jit
@no_type_check
def summed(lanes):
    """The sum of each lane."""
    return tl.sum(tl.sum(lanes, 1), 2)


@triton.jit
@no_type_check
def said(level, heaviest, t, counts):
    """Entropy and peak of queries whose level is known, from the largest weight and t = Σ 2^x · x, x = score − level.

    The level is rounded, so that weights sum to almost 1; what is known of any weights is not given up to that.
    """
    looking = counts & (level != -float("inf"))
    bad = looking & ((level != level) | (level == float("inf")))
    spread = tl.where(looking, tl.maximum(-0.6931471805599453 * t, 0.0), 0.0)
    heaviest = tl.where(looking, tl.minimum(heaviest, 1.0), 0.0)
    return tl.where(bad, float("nan"), spread), tl.where(bad, float("nan"), heaviest)


@triton.jit
@no_type_check
def reach(positions, first, last, low, high, LOW: tl.constexpr, HIGH: tl.constexpr):
    """The first of the others that each position may meet and one past the last: low ≤ other − position ≤ high."""
    begin = tl.full(positions.shape, 0, tl.int32) + first
    end = tl.full(positions.shape, 0, tl.int32) + last
    if LOW:
        begin = tl.maximum(begin, positions + low)
    if HIGH:
        end = tl.minimum(end, positions + high + 1)
    return begin, end


@triton.jit
@no_type_check
def meeting(others, begin, end, own_ids, other_ids, PACKED: tl.constexpr):
    """Which pairs of a tile may look: `others` are the positions across it."""
    met = (others[None, :] >= begin[:, None]) & (others[None, :] < end[:, None])
    if PACKED:
        met = met & (own_ids[:, None] == other_ids[None, :]) & (other_ids >= 0)[None, :]
    return met


@triton.jit
@no_type_check
def stretch(
    lowest,
    highest,
    first,
    last,
    low,
    high,
    span,
    SIZE: tl.constexpr,
    LOW: tl.constexpr,
    HIGH: tl.constexpr,
    PACKED: tl.constexpr,
):
    """Where a block of positions, from `lowest` to `highest`, begins and ends to meet others, in whole tiles of them.

    In the middle is the open part, of tiles in which every pair may look. `span` holds a run of others outside which
    none is of the same document. Returns start, start of the open part, its end, end.
    """
    start = first
    stop = last
    open_start = first
    open_stop = last
    if LOW:
        start = tl.maximum(start, lowest + low)
        open_start = tl.maximum(open_start, highest + low)
    if HIGH:
        stop = tl.minimum(stop, highest + high + 1)
        open_stop = tl.minimum(open_stop, lowest + high + 1)
    if PACKED:
        start = tl.maximum(start, tl.load(span))
        stop = tl.minimum(stop, tl.load(span + 1))
    start = (start // SIZE) * SIZE
    if highest < lowest:
        stop = start
    open_start = tl.maximum(tl.cdiv(open_start, SIZE) * SIZE, start)
    open_stop = tl.minimum((open_stop // SIZE) * SIZE, stop)
    if PACKED:
        open_stop = start
    if open_stop <= open_start:  # no tile in which every pair may look
        open_start = start
        open_stop = start
    return start, open_start, open_stop, stop
