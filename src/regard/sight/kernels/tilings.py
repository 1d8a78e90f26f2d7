"""Tile sizes of the evidence kernels, as measured on an H200 (benchmarks/results/evidence_tilings.md)."""

from dataclasses import dataclass, replace
from typing import Literal

import torch

from regard.sight.kernels.kernel_mask import KernelCall

Pass = Literal["rows", "rows, given", "many", "top", "top, given", "keys", "map", "bands", "single pass"]


@dataclass(frozen=True, kw_only=True)
class EvidenceTiling:
    """How many rows a program owns and how many others it takes at a time, its warps, and its pipeline stages."""

    tall: int
    size: int
    warps: int
    stages: int
    registers: int | None = None  # limit per thread, so that more programs fit on a multiprocessor
    described: bool = True  # whether the copy engine (TMA) loads tiles
    parts: int = 1  # bunches per lane of a tile, in the search for the top keys


def _of(tall: int, size: int, warps: int, stages: int, registers: int | None = None) -> EvidenceTiling:
    return EvidenceTiling(tall=tall, size=size, warps=warps, stages=stages, registers=registers)


# By pass and numbers of a query in a tile; where two are given, the second is for masks that hide later keys.
MEASURED: dict[tuple[Pass, int], tuple[EvidenceTiling, ...]] = {
    ("rows", 64): (_of(64, 128, 4, 2, 96),),
    ("rows", 128): (_of(128, 128, 4, 2), _of(128, 128, 8, 2, 128)),
    ("rows, given", 64): (_of(64, 128, 4, 2, 96),),
    ("rows, given", 128): (_of(64, 64, 4, 3, 128), _of(128, 128, 4, 2)),
    ("many", 64): (_of(64, 64, 4, 3, 128),),
    ("many", 128): (_of(64, 64, 4, 3, 128),),
    ("top", 64): (_of(64, 64, 4, 3, 128),),
    ("top", 128): (_of(64, 64, 4, 3),),
    ("top, given", 64): (_of(64, 64, 4, 3),),
    ("top, given", 128): (_of(64, 64, 4, 3),),
    ("keys", 64): (_of(64, 128, 4, 2),),
    ("keys", 128): (_of(128, 128, 8, 2, 128),),
    ("map", 64): (_of(64, 128, 4, 2, 128),),
    ("map", 128): (_of(128, 128, 4, 2),),
    ("bands", 64): (_of(64, 64, 4, 3), _of(64, 64, 4, 2, 96)),
    ("bands", 128): (_of(128, 64, 4, 3, 168), _of(128, 64, 4, 2, 168)),
    ("single pass", 64): (_of(64, 128, 4, 2, 128), _of(64, 128, 4, 2, 168)),
    ("single pass", 128): (_of(128, 64, 4, 2), _of(64, 64, 4, 3, 128)),
}
PAIRED = 32768  # keys up to which a lane has two bunches of a tile: longer lists, fewer keys to go through at the end
SMALL = _of(64, 64, 4, 3, 128)  # for one pass over a map whose cells are as small as can be


def tiling_of(call: KernelCall, kind: Pass, size: tuple[int, int] | None = None) -> EvidenceTiling:
    """The tiling of a pass over a call, and over a map of this `size`."""
    queries, keys = call.query.shape[-2], call.key.shape[-2]
    tall, wide = (128, 128) if size is None else (queries // size[0], keys // size[1])
    if call.query.dtype == torch.float32:
        return EvidenceTiling(tall=64, size=32, warps=4, stages=2, described=False)
    if padded_width(call) > 128:
        return _of(64, min(64, _within(tall)), 4, 2)
    if kind == "map" and _within(tall) == 64:
        kind = "bands"
    measured = MEASURED[kind, 128 if padded_width(call) == 128 else 64]
    found = measured[0 if call.high is None else -1]
    if kind in ("top", "top, given"):
        long = keys > PAIRED
        return replace(found, registers=96 if kind == "top" else None) if long else replace(found, parts=2)
    if kind == "single pass" and (tall % found.tall or wide % found.size):
        return SMALL
    if kind == "map" and _within(tall) < found.size:
        return replace(found, tall=128, size=_within(tall), warps=4, stages=3, registers=168)
    return found


def _within(band: int) -> int:
    """The largest tile that fits into a band, so that no tile meets three bands; 16 is the smallest there is."""
    return next((size for size in (128, 64, 32) if band >= size), 16)


def padded_width(call: KernelCall) -> int:
    """Numbers of a query in a tile: a power of two."""
    return max(16, 1 << (call.query.shape[-1] - 1).bit_length())


def bands_in_tiles(size: tuple[int, int] | None, queries: int, tile: int) -> int:
    """How bands of queries and tiles meet: 0 without bands, 1 in whole tiles, 2 at most two in a tile, 3 many."""
    if size is None:
        return 0
    tall, uneven = divmod(queries, size[0])
    return 1 if not uneven and tall % tile == 0 else 2 if tall >= tile else 3


def columns_in_tile(keys: int, width: int, tall: int) -> int:
    """The most columns of a map that are in one tile of keys, as a power of two."""
    start = torch.arange(0, keys, tall, device="cpu")
    last = ((start + tall).clamp_max(keys) - 1) * width // keys
    return 1 << int((last - start * width // keys).max()).bit_length()
