"""How a tile of scores is loaded, multiplied, masked and summed in every evidence kernel.

Scores are in units of log 2, so that exp and log are the base-2 ones of the hardware.
"""

from typing import no_type_check

import triton
import triton.language as tl

HIDDEN = tl.constexpr(-1.0e30)  # finite, so that 0 · score is 0 and not NaN


@triton.jit
@no_type_check
def load_tile(side, descriptor, batch, head, start, SIZE: tl.constexpr, width, PADDED: tl.constexpr, skip=0):
    """Positions start … start + SIZE of a side; zeros from its end on, and from `width` on."""
    if descriptor is not None:
        return descriptor.load([batch, head, start, 0]).reshape(SIZE, PADDED)
    rows = tl.arange(0, SIZE)
    parts = tl.arange(0, PADDED)
    first = (
        side.pointer
        + skip
        + batch.to(tl.int64) * side.stride_batch
        + head.to(tl.int64) * side.stride_head
        + tl.cast(start, tl.int64) * side.stride
    )
    inside = (rows < side.count - start)[:, None] & (parts < width)[None, :]
    return tl.load(first + rows[:, None] * side.stride + parts[None, :], mask=inside, other=0.0)


@triton.jit
@no_type_check
def own_tile(side, block, TALL: tl.constexpr, WIDTH: tl.constexpr, PADDED: tl.constexpr, EXACT: tl.constexpr):
    """What the program owns, loaded once; nothing where products are exact."""
    if EXACT:
        return 0
    else:
        return load_tile(side, None, block.batch, block.head, block.index * TALL, TALL, WIDTH, PADDED)


@triton.jit
@no_type_check
def products(
    owned_tile, side, others, block, begin,
    TALL: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, PADDED: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """The products of what the program owns with the others from `begin` on."""
    if EXACT:
        start = block.index * TALL
        return exact(
            side, others, block.batch, block.head, block.other_head, start, begin, TALL, SIZE, WIDTH, PADDED
        )
    else:
        other = load_tile(
            others, others.descriptor, block.batch, block.other_head, begin, SIZE, WIDTH, PADDED
        )  # fmt: skip
        return tl.dot(owned_tile, tl.trans(other))


@triton.jit
@no_type_check
def exact(
    side, others, batch, head, other_head, start, other_start,
    TALL: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr, PADDED: tl.constexpr,
):  # fmt: skip
    """Products in true float32, not in tf32, 16 columns at a time: whole rows would fill the registers."""
    found = tl.zeros([TALL, SIZE], tl.float32)
    for at in range(0, PADDED, 16):  # not unrolled, which would compile for minutes
        a = load_tile(side, None, batch, head, start, TALL, WIDTH - at, 16, at)
        b = load_tile(others, None, batch, other_head, other_start, SIZE, WIDTH - at, 16, at)
        found = tl.dot(a.to(tl.float32), tl.trans(b.to(tl.float32)), found, input_precision="ieee")
    return found


@triton.jit
@no_type_check
def biased(found, scoring, slope, queries, keys):
    """Scores from products; `queries` and `keys` are positions that broadcast over them."""
    if scoring.slopes is not None:
        away = tl.abs((queries + scoring.shift).to(tl.float32) - keys.to(tl.float32))
        return found * scoring.scale - slope * away
    else:
        return found * scoring.scale


@triton.jit
@no_type_check
def meeting(others, begin, end):
    """Which pairs of a tile are in reach: `others` are the positions across it."""
    return (others[None, :] >= begin[:, None]) & (others[None, :] < end[:, None])


@triton.jit
@no_type_check
def same_document(ids, other_ids):
    """Which pairs of a tile are of one document, and not of padding."""
    return (ids[:, None] == other_ids[None, :]) & (other_ids >= 0)[None, :]


@triton.jit
@no_type_check
def visible(block, others, position):
    """Which of the others at these positions, across, may meet what the program owns, down."""
    met = meeting(position, block.nearest, block.farthest)
    if others.ids is not None:
        met = met & same_document(block.ids, ids_at(block, others, position))
    return met


@triton.jit
@no_type_check
def ids_at(block, others, position):
    """The documents of some of the others."""
    return tl.load(block.other_ids + position, mask=position < others.count, other=-1)


@triton.jit
@no_type_check
def laned(found, LANES: tl.constexpr):
    """A tile with its columns as [run, lane, pair], as a tensor core leaves them: 2 · LANES columns a run, two a lane.

    A sum over runs and pairs needs nothing from another lane; lanes meet when all tiles are done.
    """
    return tl.reshape(found, (found.shape[0], found.shape[1] // (2 * LANES), LANES, 2))


@triton.jit
@no_type_check
def summed(lanes):
    """The sum of each lane."""
    return tl.sum(tl.sum(lanes, 1), 2)


@triton.jit
@no_type_check
def entropy_and_peak(level, heaviest, t, counts):
    """Of queries whose log-sum-exp is known, from the largest weight and t = Σ 2^x · x, x = score − level.

    The level is rounded, so that weights sum to almost 1; results stay within what any weights allow.
    """
    looking = counts & (level != -float("inf"))
    bad = looking & ((level != level) | (level == float("inf")))
    spread = tl.where(looking, tl.maximum(-0.6931471805599453 * t, 0.0), 0.0)
    heaviest = tl.where(looking, tl.minimum(heaviest, 1.0), 0.0)
    return tl.where(bad, float("nan"), spread), tl.where(bad, float("nan"), heaviest)
