"""Which queries or keys a program of an evidence kernel owns, and which of the others it loops over.

The named tuples exist inside kernels only; what is None in them is left out when a kernel is compiled. Triton 3.6
cannot return None from a function, so a kernel makes its own `Side` and `Scoring`.
"""

from typing import Any, NamedTuple, no_type_check

import triton
import triton.language as tl


class Side(NamedTuple):
    """The queries or the keys of a call: [batch, head, position, width]."""

    pointer: Any
    descriptor: Any  # for the copy engine (TMA), or None
    stride_batch: Any
    stride_head: Any
    stride: Any
    count: Any
    ids: Any  # of documents, [entries / share, position], or None


class Scoring(NamedTuple):
    """How a query and a key are scored, and when the query may look at the key: low ≤ key − query ≤ high, and so on."""

    ranges: Any  # [entries, 4]: first query, one past the last, first key, one past the last; or None
    spans: Any  # [entries / share, block, 2]: the others outside which no document of the block continues; or None
    slopes: Any  # of ALiBi, [entries], or None
    heads: Any
    groups: Any  # query heads per key head
    share: Any  # entries that have the same documents
    scale: Any
    shift: Any  # position of the first query, for the slopes
    low: Any
    high: Any


class Block(NamedTuple):
    """The queries (or keys) that a program owns, and the keys (or queries) that it loops over."""

    entry: Any
    batch: Any
    head: Any
    other_head: Any
    index: Any
    row: Any  # [TALL], in the tensor
    position: Any  # [TALL], in the sequence
    real: Any
    first: Any  # that counts
    last: Any
    other_first: Any
    other_last: Any
    nearest: Any  # [TALL], the first of the others that it may meet
    farthest: Any  # one past the last
    start: Any  # of the loop, in whole tiles
    open_start: Any  # from here to open_stop every pair may look
    open_stop: Any
    stop: Any
    ids: Any
    other_ids: Any
    slope: Any


@triton.jit
@no_type_check
def owned(
    side, others, scoring, positions, beside, KEYS: tl.constexpr, TALL: tl.constexpr, SIZE: tl.constexpr
):
    """The block of this program: TALL queries or, with KEYS, keys. `beside` entries are processed at the same time."""
    blocks = tl.cdiv(side.count, TALL)
    together = tl.program_id(0) // (blocks * beside)
    rest = tl.program_id(0) % (blocks * beside)
    count = tl.minimum(beside, tl.num_programs(0) // blocks - together * beside)
    entry, index = together * beside + rest % count, rest // count
    low, high = scoring.low, scoring.high
    if KEYS:  # a band of queries − keys
        low = None
        high = None
        if scoring.high is not None:
            low = -scoring.high
        if scoring.low is not None:
            high = -scoring.low
    elif high is not None:
        index = blocks - 1 - index  # the longest first, so that the chip is busy to the end
    batch, head, other_head = heads_of(entry, scoring, KEYS)
    row = index * TALL + tl.arange(0, TALL)
    real = row < side.count
    first, last, other_first, other_last = limits(entry, side, others, scoring, KEYS)
    position = row
    lowest = tl.maximum(index * TALL, first)
    highest = tl.minimum(index * TALL + TALL, last) - 1
    if positions is not None:
        position = tl.load(positions + row, mask=real, other=-1)
        inside = (position >= first) & (position < last)
        lowest = tl.min(tl.where(inside, position, last), 0)
        highest = tl.max(tl.where(inside, position, -1), 0)
    ids = row  # not read without documents
    other_ids = entry
    span = None
    if side.ids is not None:
        documents = entry // scoring.share
        ids = tl.load(side.ids + documents.to(tl.int64) * side.count + row, mask=real, other=-1)
        other_ids = others.ids + documents.to(tl.int64) * others.count
        span = scoring.spans + (documents * blocks + index) * 2
    start, open_start, open_stop, stop = stretch(
        lowest, highest, other_first, other_last, low, high, span, SIZE
    )
    nearest, farthest = reach(position, other_first, other_last, low, high)
    slope = 0.0  # not read without slopes
    if scoring.slopes is not None:
        slope = tl.load(scoring.slopes + entry)
    return Block(
        entry, batch, head, other_head, index, row, position, real, first, last, other_first, other_last,
        nearest, farthest, start, open_start, open_stop, stop, ids, other_ids, slope,
    )  # fmt: skip


@triton.jit
@no_type_check
def counted(block):
    """Which of the owned are inside the ranges. Computed where it is used: kept through a loop, it costs registers."""
    return (block.position >= block.first) & (block.position < block.last)


@triton.jit
@no_type_check
def heads_of(entry, scoring, KEYS: tl.constexpr):
    """The batch entry, the head of the owned side and the head of the other."""
    batch = entry // scoring.heads
    head = entry % scoring.heads
    if KEYS:
        return batch, head // scoring.groups, head
    else:
        return batch, head, head // scoring.groups


@triton.jit
@no_type_check
def limits(entry, side, others, scoring, KEYS: tl.constexpr):
    """The first of the owned that counts, one past the last, and the same of the others."""
    if scoring.ranges is None:
        return entry * 0, entry * 0 + side.count, entry * 0, entry * 0 + others.count
    else:
        own: tl.constexpr = 2 if KEYS else 0
        at = scoring.ranges + entry * 4
        return tl.load(at + own), tl.load(at + own + 1), tl.load(at + 2 - own), tl.load(at + 3 - own)


@triton.jit
@no_type_check
def reach(positions, first, last, low, high):
    """The first of the others that each position may meet and one past the last: low ≤ other − position ≤ high."""
    begin = tl.full(positions.shape, 0, tl.int32) + first
    end = tl.full(positions.shape, 0, tl.int32) + last
    if low is not None:
        begin = tl.maximum(begin, positions + low)
    if high is not None:
        end = tl.minimum(end, positions + high + 1)
    return begin, end


@triton.jit
@no_type_check
def stretch(lowest, highest, first, last, low, high, span, SIZE: tl.constexpr):
    """The others that positions from `lowest` to `highest` may meet, in whole tiles: start, open start, open stop, stop.

    Between the open ones are the tiles in which every pair may look.
    """
    start = first
    stop = last
    open_start = first
    open_stop = last
    if low is not None:
        start = tl.maximum(start, lowest + low)
        open_start = tl.maximum(open_start, highest + low)
    if high is not None:
        stop = tl.minimum(stop, highest + high + 1)
        open_stop = tl.minimum(open_stop, lowest + high + 1)
    if span is not None:
        start = tl.maximum(start, tl.load(span))
        stop = tl.minimum(stop, tl.load(span + 1))
    start = (start // SIZE) * SIZE
    if highest < lowest:
        stop = start
    open_start = tl.maximum(tl.cdiv(open_start, SIZE) * SIZE, start)
    open_stop = tl.minimum((open_stop // SIZE) * SIZE, stop)
    if span is not None:
        open_stop = start
    if open_stop <= open_start:  # no tile in which every pair may look
        open_start = start
        open_stop = start
    return start, open_start, open_stop, stop


@triton.jit
@no_type_check
def part_of(start, open_start, open_stop, stop, PART: tl.constexpr):
    """The loop before the open tiles (0), over them (1), where nothing is masked, and after them (2)."""
    if PART == 0:
        return start, open_start
    elif PART == 1:
        return open_start, open_stop
    else:
        return open_stop, stop
