"""What the kernels for variable lengths share: which tile a program takes, what its rows see, and reading and writing.

Query i of a batch row sees the keys first ≤ j < last. In a padded batch these follow from the lengths and the band,

    first = max(start of the real keys, i + low),    last = min(end of the real keys, i + high + 1),

and in packed sequences they are read. The same holds the other way round: the queries that see key j are a range too. What a
tile of rows sees is the union of the ranges of its rows, and what all of its rows see needs no mask.
"""

# mypy: ignore-errors

from typing import no_type_check

import triton
import triton.language as tl


@triton.jit
@no_type_check
def place_of(tiles, strips, together):
    """The tile of this program and its strip, a head of a batch row. `together` strips are at work at a time, so that
    their keys stay in the L2 cache; of these all last tiles come first.
    """
    program = tl.program_id(0)
    turn = program // (tiles * together)
    within = program - turn * tiles * together
    there = tl.minimum(together, strips - turn * together)
    return tiles - 1 - within // there, turn * together + within % there


@triton.jit
@no_type_check
def real_of(COUNTS, batch, step, count, left, size):
    """The real positions of a batch row, first ≤ i < last: as many as a tensor or a number says, at the left or the right."""
    if COUNTS is not None:
        told = tl.load(COUNTS + batch * step).to(tl.int64)
        count = tl.minimum(tl.maximum(told, 0), size).to(tl.int32)
    start = left * (size - count)
    return start, start + count


@triton.jit
@no_type_check
def ranges_of(rows, FIRST, LAST, size, start, end, other_start, other_end, low, high):
    """What each row sees, first ≤ j < last, and whether it sees anything."""
    if FIRST is not None:
        first = tl.load(FIRST + rows, rows < size, 0)
        last = tl.load(LAST + rows, rows < size, 0)
    else:
        first = tl.maximum(rows + low, other_start)
        last = tl.minimum(rows + high + 1, other_end)
        last = tl.where((rows >= start) & (rows < end), last, first)
    return first, last, last > first


@triton.jit
@no_type_check
def phases_of(first, last, some, N: tl.constexpr):
    """Where the tiles of N begin that a tile of rows meets: edges from `start`, all of them seen from `full`, edges again
    from `rest` to `end`. Edges before and behind are one loop: the number of those before, and of both.
    """
    start = tl.min(tl.where(some, first, 1 << 30))
    end = tl.maximum(tl.max(tl.where(some, last, 0)), start)
    inner = tl.minimum(tl.max(tl.where(some, first, 0)), end)
    before = tl.cdiv(tl.maximum(inner - start, 0), N)
    full = start + before * N
    whole = tl.maximum(tl.min(tl.where(some, last, 1 << 30)) - full, 0) // N
    whole = tl.where(end > start, whole, 0)
    rest = full + whole * N
    edges = before + tl.cdiv(tl.maximum(end - rest, 0), N)
    return start, full, rest, end, before, edges


@triton.jit
@no_type_check
def read(place, some, WIDTH: tl.constexpr, FULL: tl.constexpr, MASKED: tl.constexpr):
    """A tile of vectors at these places, zeros where not `some` and beyond the width."""
    columns = tl.arange(0, FULL)
    if MASKED and WIDTH != FULL:
        return tl.load(place, some[:, None] & (columns < WIDTH)[None, :], 0.0)
    elif MASKED:
        return tl.load(place, some[:, None], 0.0)
    elif WIDTH != FULL:
        return tl.load(place, (columns < WIDTH)[None, :], 0.0)
    else:
        return tl.load(place)


@triton.jit
@no_type_check
def write(pointer, tile, rows, step, size, some, WIDTH: tl.constexpr, FULL: tl.constexpr):
    """The vectors of these rows; zeros for those that are not `some`."""
    columns = tl.arange(0, FULL)
    inside = (rows < size)[:, None] & (columns < WIDTH)[None, :]
    tile = tl.where(some[:, None], tile, 0.0).to(pointer.dtype.element_ty)
    tl.store(pointer + rows[:, None].to(tl.int64) * step + columns[None, :], tile, inside)


@triton.jit
@no_type_check
def kept_of(SEED, rows, columns, keys, DROPOUT: tl.constexpr):
    """Which weights stay, times 1 / (1 − p): a function of the seed and the place of a weight, so that all passes agree."""
    place = rows.to(tl.int64) * keys + columns
    return tl.where(tl.rand(tl.load(SEED), place) >= DROPOUT, 1.0 / (1.0 - DROPOUT), 0.0)
