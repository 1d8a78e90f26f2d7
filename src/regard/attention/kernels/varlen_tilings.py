"""How the kernels for variable lengths are cut for the chip: queries and keys of a tile, warps and stages of the pipeline."""

from typing import Literal, NamedTuple

import torch

Part = Literal["forward", "to query", "to key"]


class VarlenTiling(NamedTuple):
    """A program keeps a tile of queries and meets tiles of keys, or the other way round for the gradient of the keys."""

    queries: int
    keys: int
    warps: int
    stages: int


def tiling(
    part: Part,
    width: int,
    queries: int,
    keys: int,
    dtype: torch.dtype,
    *,
    longest: int | None = None,
    roomy: bool = True,
) -> VarlenTiling:
    """The tiling for heads of this width (of keys or values, the wider), rounded up to a power of two.

    `longest` is that of packed sequences, of which a tile may hold
    several; a `roomy` chip has 160 KB of shared memory. `benchmarks/attend_gpu.py --sweep` times others.
    """
    if dtype.itemsize == 4:
        if width <= 64:
            return _FLOAT32[part]
        return _FLOAT32_MIDDLE[part] if width <= 128 and roomy else _FLOAT32_WIDE[part]
    if width > 128:
        return _WIDE[part] if roomy else _FLOAT32_WIDE[part]
    if not roomy or (longest is not None and longest <= 128):
        return _SENTENCES[part]
    if queries <= 16 and part == "forward":
        return VarlenTiling(16, 64, 4, 2)
    if max(queries, keys) <= 128:
        return _SHORT[part]
    if width > 64:
        return _MIDDLE[part]
    return _NARROW[part]


# The fastest of eight tried on an H200 with sentences of 15 tokens.
_SENTENCES: dict[Part, VarlenTiling] = {
    "forward": VarlenTiling(64, 32, 4, 3),
    "to query": VarlenTiling(64, 32, 4, 3),
    "to key": VarlenTiling(32, 32, 2, 3),
}
# With heads of 64 (short, narrow) or 128 (middle) in 16 bits none of these spills registers.
_SHORT: dict[Part, VarlenTiling] = {
    "forward": VarlenTiling(64, 32, 4, 3),
    "to query": VarlenTiling(64, 32, 4, 3),
    "to key": VarlenTiling(64, 64, 4, 2),
}
_NARROW: dict[Part, VarlenTiling] = {
    "forward": VarlenTiling(64, 64, 4, 3),
    "to query": VarlenTiling(64, 64, 4, 3),
    "to key": VarlenTiling(64, 64, 4, 3),
}
_MIDDLE: dict[Part, VarlenTiling] = {
    "forward": VarlenTiling(64, 64, 4, 3),
    "to query": VarlenTiling(64, 64, 4, 2),
    "to key": VarlenTiling(64, 128, 8, 2),
}
_WIDE: dict[Part, VarlenTiling] = {
    "forward": VarlenTiling(64, 32, 4, 1),
    "to query": VarlenTiling(32, 32, 4, 1),
    "to key": VarlenTiling(32, 32, 4, 1),
}
# Six products of bfloat16 for one of float32 take registers.
_FLOAT32: dict[Part, VarlenTiling] = {
    "forward": VarlenTiling(64, 32, 4, 2),
    "to query": VarlenTiling(64, 32, 4, 2),
    "to key": VarlenTiling(32, 32, 4, 2),
}
_FLOAT32_MIDDLE: dict[Part, VarlenTiling] = {
    "forward": VarlenTiling(64, 32, 4, 1),
    "to query": VarlenTiling(32, 32, 4, 1),
    "to key": VarlenTiling(32, 32, 4, 1),
}
_FLOAT32_WIDE: dict[Part, VarlenTiling] = {
    "forward": VarlenTiling(32, 32, 4, 1),
    "to query": VarlenTiling(16, 16, 4, 1),
    "to key": VarlenTiling(16, 16, 4, 1),
}
