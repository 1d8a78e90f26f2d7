"""Sizes of tiles, from what was measured on an H200 (benchmarks/results/evidence_tilings.md)."""

from dataclasses import dataclass

import torch

from regard.sight.kernels.terms import Terms


@dataclass(frozen=True, kw_only=True)
class Tiling:
    """How many rows a program owns, how many it goes over at a time, its warps, and the tiles under way."""

    tall: int
    size: int
    warps: int
    stages: int
    registers: int | None = None  # the most a thread may have, so that more programs run beside one another
    described: bool = True  # whether tiles are brought by the copy engine


def tiling_of(terms: Terms, *, top: int = 0, band: int | None = None, owner: str = "queries") -> Tiling:
    """The sizes of tiles, from what was measured on an H200 (benchmarks/results/evidence_tilings.md).

    `owner` is what a program owns, queries or keys; `band` how many queries a row of the map has, if there is one.
    """
    room = room_of(terms)
    if terms.query.dtype == torch.float32:
        return Tiling(tall=64, size=32, warps=4, stages=2, described=False)
    if room > 128:
        return Tiling(tall=64, size=min(64, _within(band)), warps=4, stages=2)
    if top:
        return Tiling(tall=64, size=64, warps=4, stages=3, registers=128)
    if _within(band) < 128:
        return Tiling(tall=128, size=_within(band), warps=4, stages=3, registers=168)
    if owner == "queries" and room == 128:
        return Tiling(tall=128, size=128, warps=8, stages=2, registers=128)
    return Tiling(tall=64, size=128, warps=4, stages=2, registers=128)


def tiling_of_once(terms: Terms, size: tuple[int, int] | None) -> Tiling:
    """The same for the pass that is told the log-sum-exp, in which tiles lie on their side."""
    queries, keys = terms.query.shape[-2], terms.key.shape[-2]
    band, wide = (128, 128) if size is None else (queries // size[0], keys // size[1])
    if room_of(terms) == 128 and band % 128 == 0:
        return Tiling(tall=128, size=64, warps=8, stages=2, registers=128)
    if wide % 128 == 0:
        return Tiling(tall=64, size=128, warps=4, stages=2, registers=168)
    return Tiling(tall=64, size=64, warps=4, stages=3, registers=128)


def _within(band: int | None) -> int:
    """The largest tile of which a band has at least one, so that no tile meets three; 16 is the smallest there is."""
    return next((size for size in (128, 64, 32) if band is None or band >= size), 16)


def room_of(terms: Terms) -> int:
    """Numbers of a query in a tile: a power of two."""
    return max(16, 1 << (terms.query.shape[-1] - 1).bit_length())
