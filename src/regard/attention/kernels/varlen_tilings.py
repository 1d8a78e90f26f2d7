"""How the kernels for variable lengths are cut for the chip: queries and keys of a tile, warps and stages of the pipeline."""

from typing import Literal, NamedTuple

import torch

Part = Literal["forward", "to query", "to key"]


class Tiling(NamedTuple):
    """A program keeps a tile of queries and meets tiles of keys, or the other way round for the gradient of the keys."""

    queries: int
    keys: int
    warps: int
    stages: int


def tiling(
    part: Part, width: int, queries: int, keys: int, dtype: torch.dtype, longest: int | None = None
) -> Tiling:
    """The tiling for heads of this width (of keys or values, the wider), rounded up to a power of two.

    `longest` is that of packed sequences, of which a tile may hold several. `benchmarks/attend_gpu.py --sweep` times
    others.
    """
    if dtype.itemsize == 4:  # products in float32 take registers, not tensor cores
        return _FLOAT32[part] if width <= 128 else _FLOAT32_WIDE[part]
    if longest is not None and longest <= 128:
        return _SENTENCES[part] if width <= 128 else _FLOAT32_WIDE[part]
    if queries <= 16 and part == "forward":
        return Tiling(16, 64, 4, 2)
    if max(queries, keys) <= 128:
        return _SHORT[part] if width <= 128 else _WIDE[part]
    if width <= 64:
        return _NARROW[part]
    return _MIDDLE[part] if width <= 128 else _WIDE[part]


# The fastest of eight tried on an H200 with sentences of 15 tokens.
_SENTENCES: dict[Part, Tiling] = {
    "forward": Tiling(64, 32, 4, 3),
    "to query": Tiling(64, 32, 4, 3),
    "to key": Tiling(32, 32, 2, 3),
}
_FLOAT32: dict[Part, Tiling] = {
    "forward": Tiling(64, 32, 4, 2),
    "to query": Tiling(64, 32, 4, 2),
    "to key": Tiling(32, 32, 2, 2),
}
_FLOAT32_WIDE: dict[Part, Tiling] = {
    "forward": Tiling(32, 32, 4, 1),
    "to query": Tiling(32, 32, 4, 1),
    "to key": Tiling(32, 32, 4, 1),
}
# None of these spills registers with heads of 64 (short, narrow) or 128 (middle) in 16 bits.
_SHORT: dict[Part, Tiling] = {
    "forward": Tiling(64, 64, 4, 2),
    "to query": Tiling(64, 64, 4, 2),
    "to key": Tiling(32, 64, 4, 2),
}
_NARROW: dict[Part, Tiling] = {
    "forward": Tiling(128, 64, 4, 3),
    "to query": Tiling(128, 64, 8, 3),
    "to key": Tiling(64, 128, 8, 3),
}
_MIDDLE: dict[Part, Tiling] = {
    "forward": Tiling(128, 64, 8, 3),
    "to query": Tiling(128, 64, 8, 2),
    "to key": Tiling(32, 128, 8, 2),
}
_WIDE: dict[Part, Tiling] = {
    "forward": Tiling(64, 64, 4, 2),
    "to query": Tiling(64, 32, 4, 2),
    "to key": Tiling(32, 64, 8, 1),
}
