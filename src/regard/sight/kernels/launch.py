"""Launching the kernels: sizes of tiles, grids, and what is put together afterwards."""

from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
import triton
from jaxtyping import Float, Int
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from regard.sight.kernels.cells import cells_kernel
from regard.sight.kernels.heaviest import bunches_kernel, sift_kernel
from regard.sight.kernels.keys import keys_kernel
from regard.sight.kernels.once import once_kernel, settle_kernel
from regard.sight.kernels.rows import rows_kernel
from regard.sight.kernels.terms import Terms
from regard.sight.kernels.tilings import Tiling, room_of, tiling_of, tiling_of_once

_GRAIN = 16  # keys whose masses a warp can sum alone
FEW = 8  # keys in a list that bunches are kept for
MOST = 64  # keys in a list of the heaviest: beyond, the lists crowd the registers


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """What is said of each query; `keys` and `weights` are the heaviest, if they were asked for."""

    level: Float[Tensor, "entries q"]  # log2 Σ 2^score
    entropy: Float[Tensor, "entries q"]
    peak: Float[Tensor, "entries q"]
    keys: Int[Tensor, "entries q n"]
    weights: Float[Tensor, "entries q n"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Once:
    """What one pass says, when the log-sum-exp is known."""

    entropy: Float[Tensor, "entries q"]
    peak: Float[Tensor, "entries q"]
    received: Float[Tensor, "entries k"] | None
    cells: Float[Tensor, "entries h w"] | None  # sums, not averages


def look(
    terms: Terms, *, top: int = 0, positions: Tensor | None = None, tiling: Tiling | None = None
) -> Rows:
    """Go over the keys of every query. `positions` says where the queries stand, if not at 0, 1, 2 …"""
    tiling = tiling or tiling_of(terms, top=top)
    query, key = terms.query, terms.key
    queries, entries = query.shape[-2], terms.entries
    blocks = -(-queries // tiling.tall)

    def empty(*sizes: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.empty(entries, queries, *sizes, dtype=dtype, device=query.device)

    rows = Rows(
        level=empty(), entropy=empty(), peak=empty(), keys=empty(top, dtype=torch.long), weights=empty(top)
    )
    packed = terms.documents
    spans = None if packed is None else _spans(packed.asking, packed.asked, tiling.tall)
    with _on(query):
        rows_kernel[(entries * blocks,)](
            query, key, _descriptor(key, tiling, room_of(terms)), positions, terms.ranges, *_ids(terms), spans, terms.slopes,
            rows.level, rows.entropy, rows.peak, rows.keys, rows.weights,
            queries, key.shape[-2], *_heads(terms),
            *query.stride()[:3], *key.stride()[:3], terms.scale, terms.shift, terms.low or 0, terms.high or 0,
            TALL=tiling.tall, SIZE=tiling.size, TOP=top, SLOTS=1 << max(top - 1, 0).bit_length(),
            STAGES=tiling.stages, num_warps=tiling.warps, maxnreg=tiling.registers, **_flags(terms),
        )  # fmt: skip
    return rows


def heaviest(terms: Terms, top: int, level: Tensor | None = None, *, tiling: Tiling | None = None) -> Rows:
    """The heaviest keys of every query, at most FEW; without a level, also everything else that is said of queries."""
    tiling = tiling or tiling_of(terms, top=top)
    query, key = terms.query, terms.key
    queries, entries = query.shape[-2], terms.entries
    rows = torch.empty(3, entries, queries, device=query.device)
    found = Rows(
        level=rows[0] if level is None else level,
        entropy=rows[1],
        peak=rows[2],
        keys=torch.empty(entries, queries, top, dtype=torch.long, device=query.device),
        weights=torch.empty(entries, queries, top, device=query.device),
    )
    slots, few, flags = 1 << (top - 1).bit_length(), 16, _flags(terms)
    bunch = torch.empty(entries, queries, slots, dtype=torch.int32, device=query.device)
    packed = terms.documents
    spans = None if packed is None else _spans(packed.asking, packed.asked, tiling.tall)
    with _on(query):
        bunches_kernel[(entries * -(-queries // tiling.tall),)](
            query, key, _descriptor(key, tiling, room_of(terms)), terms.ranges, *_ids(terms), spans, terms.slopes,
            found.level, found.entropy, found.peak, bunch,
            queries, key.shape[-2], *_heads(terms),
            *query.stride()[:3], *key.stride()[:3], terms.scale, terms.shift, terms.low or 0, terms.high or 0,
            TALL=tiling.tall, SIZE=tiling.size, SLOTS=slots, KNOWN=level is not None,
            STAGES=tiling.stages, num_warps=tiling.warps, maxnreg=tiling.registers, **flags,
        )  # fmt: skip
        sift_kernel[(entries * -(-queries // few),)](
            query, key, terms.ranges, *_ids(terms), terms.slopes, found.level, bunch, found.keys, found.weights,
            queries, key.shape[-2], *_heads(terms),
            *query.stride()[:3], *key.stride()[:3], terms.scale, terms.shift, terms.low or 0, terms.high or 0,
            TALL=few, BUNCH=tiling.size // flags["LANES"], TOP=top, SLOTS=slots,
            **{name: flag for name, flag in flags.items() if name != "EXACT"},
        )  # fmt: skip
    return found


def collect(
    terms: Terms, level: Tensor, size: tuple[int, int] | None = None, *, tiling: Tiling | None = None
) -> tuple[Float[Tensor, "entries k"], Float[Tensor, "entries h w"]]:
    """The mass every key received and, if a `size` is asked, that in the cells of a map of so many rows and columns."""
    query, key = terms.query, terms.key
    queries, keys, entries = query.shape[-2], key.shape[-2], terms.entries
    height, width = size or (1, 1)
    tiling = tiling or tiling_of(terms, band=queries // height if size else None, owner="keys")
    tiles = -(-keys // tiling.tall)
    whole = _meeting(size, queries, tiling.size)
    if whole == 1 and keys % (width * _GRAIN):
        whole = 2
    segments, where = (tiling.tall // _GRAIN, None) if whole < 2 else _columns(keys, width, tiling.tall)
    received = torch.empty(entries, keys, device=query.device)
    # A band of queries that may not look at a tile of keys never comes by it.
    cells = torch.zeros(entries, height, tiles * segments, device=query.device) if size else None
    packed = terms.documents
    spans = None if packed is None else _spans(packed.asked, packed.asking, tiling.tall)
    with _on(query):
        keys_kernel[(entries * tiles,)](
            query, _descriptor(query, tiling, room_of(terms)), key, level, terms.ranges, *_ids(terms), spans, terms.slopes,
            received, cells, queries, keys, *_heads(terms), height, width,
            *query.stride()[:3], *key.stride()[:3], terms.scale, terms.shift, terms.low or 0, terms.high or 0,
            TALL=tiling.tall, SIZE=tiling.size,
            MAP=whole, SEGMENTS=segments,
            STAGES=tiling.stages, num_warps=tiling.warps, maxnreg=tiling.registers, **_flags(terms),
        )  # fmt: skip
    if cells is None:
        return received, received.new_empty(entries, 0, 0)
    if where is None:
        return received, cells[..., : keys // _GRAIN].reshape(entries, height, width, -1).sum(-1)
    return received, torch.nn.functional.pad(cells, (0, 1))[..., where.to(cells.device)].sum(-1)


def fits_once(terms: Terms, size: tuple[int, int] | None) -> bool:
    """Whether one pass can answer, given the log-sum-exp: in 16 bits, and a map whose cells are of whole tiles."""
    queries, keys = terms.query.shape[-2], terms.key.shape[-2]
    if terms.query.dtype == torch.float32 or _exact(terms) or room_of(terms) > 128:
        return False
    if size is None:
        return True
    return not (queries % (size[0] * 64) or keys % (size[1] * 64))


def once(
    terms: Terms,
    level: Tensor,
    size: tuple[int, int] | None = None,
    *,
    received: bool = True,
    tiling: Tiling | None = None,
) -> Once:
    """Everything in one pass over the keys of every query, of which the log-sum-exp is known."""
    query, key = terms.query, terms.key
    queries, keys, entries = query.shape[-2], key.shape[-2], terms.entries
    height, width = size or (0, 0)
    tiling = tiling or tiling_of_once(terms, size)
    blocks = -(-queries // tiling.tall)
    rows = torch.empty(2, entries, queries, device=query.device)
    count = entries * (keys + height * width) if received or size else 0
    raw = torch.zeros(count, dtype=torch.int64, device=query.device) if count else None
    packed = terms.documents
    spans = None if packed is None else _spans(packed.asking, packed.asked, tiling.tall)
    finest = 2.0 ** (62 - (queries - 1).bit_length())
    sides = max(1, 16 * tiling.warps // tiling.size)
    with _on(query):
        once_kernel[(entries * blocks,)](
            query, key, _descriptor(key, tiling, room_of(terms)), terms.ranges, *_ids(terms), spans, terms.slopes,
            level, rows[0], rows[1], raw, None if raw is None or not size else raw[entries * keys :],
            queries, keys, *_heads(terms), height, width,
            *query.stride()[:3], *key.stride()[:3], terms.scale, terms.shift, terms.low or 0, terms.high or 0, finest,
            TALL=tiling.tall, SIZE=tiling.size, GIVEN=raw is not None, MAP=size is not None,
            DOWN=tiling.warps // sides, SIDES=sides,
            EVEN=terms.ranges is None and not (queries % tiling.tall or keys % tiling.size),
            STAGES=tiling.stages, num_warps=tiling.warps, maxnreg=tiling.registers,
            **{name: flag for name, flag in _flags(terms).items() if name not in ("LANES", "EXACT")},
        )  # fmt: skip
        masses = torch.empty(count, device=query.device)
        if raw is not None:
            settle_kernel[(-(-count // 1024),)](raw, masses, count, 1 / finest, SIZE=1024)
    return Once(
        entropy=rows[0],
        peak=rows[1],
        received=masses[: entries * keys].view(entries, keys) if count else None,
        cells=masses[entries * keys :].view(entries, height, width) if size else None,
    )


def _meeting(size: tuple[int, int] | None, queries: int, tile: int) -> int:
    """How bands of queries and tiles meet: 0 without bands, 1 in whole tiles, 2 at most two in a tile, 3 many."""
    if size is None:
        return 0
    tall, uneven = divmod(queries, size[0])
    return 1 if not uneven and tall % tile == 0 else 2 if tall >= tile else 3


def cut(terms: Terms, rows: Int[Tensor, " r"], columns: Int[Tensor, " c"]) -> Float[Tensor, "entries r c"]:
    """The exact weights of some queries on some keys."""
    if 0 in (len(rows), len(columns)):
        return torch.empty(terms.entries, len(rows), len(columns), device=rows.device)
    asking = terms.of(rows)
    few = asking.on(columns)
    rows, columns = rows.to(torch.int32), columns.to(torch.int32)
    level = look(asking, positions=rows).level
    weights = torch.empty(terms.entries, len(rows), len(columns), device=rows.device)
    tile = 32
    grid = (terms.entries * -(-len(rows) // tile) * -(-len(columns) // tile),)
    with _on(weights):
        cells_kernel[grid](
            few.query, few.key, level, few.ranges, *_ids(few), few.slopes, rows, columns, weights,
            len(rows), len(columns), *_heads(few),
            *few.query.stride()[:3], *few.key.stride()[:3],
            few.scale, few.shift, few.low or 0, few.high or 0, TALL=tile, SIZE=tile,
            **{name: flag for name, flag in _flags(few).items() if name not in ("LANES", "EXACT")},
        )  # fmt: skip
    return weights


def _flags(terms: Terms) -> dict[str, Any]:
    return {
        "WIDTH": terms.query.shape[-1],
        "ROOM": room_of(terms),
        "EXACT": _exact(terms),
        # Where a tensor core leaves the columns of a product: two to a thread, four threads to a row.
        "LANES": 1 if terms.query.dtype == torch.float32 else 4,
        "SLOPED": terms.slopes is not None,
        "LOW": terms.low is not None,
        "HIGH": terms.high is not None,
        "PACKED": terms.documents is not None,
    }


def _exact(terms: Terms) -> bool:
    """Whether products are made without a tensor core. Triton's interpreter cannot multiply bfloat16."""
    return terms.query.dtype == torch.float32 or (
        triton.knobs.runtime.interpret and terms.query.dtype == torch.bfloat16
    )


def _heads(terms: Terms) -> tuple[int, int, int]:
    heads, share = terms.query.shape[1], 1 if terms.documents is None else terms.documents.share
    return heads, heads // terms.key.shape[1], share


def _ids(terms: Terms) -> tuple[Tensor | None, Tensor | None]:
    return (None, None) if terms.documents is None else (terms.documents.asking, terms.documents.asked)


def _on(tensor: Tensor) -> Any:
    """The device of a tensor, as the current one."""
    if not tensor.is_cuda or tensor.device.index == torch.cuda.current_device():
        return nullcontext()
    return torch.cuda.device(tensor.device)


def _descriptor(tensor: Tensor, tiling: Tiling, room: int) -> TensorDescriptor | None:
    """How the copy engine finds a tile; None for a tensor it cannot read: it wants multiples of 16 bytes."""
    size, strides = tensor.element_size(), tensor.stride()[:3]
    if not tiling.described or tensor.data_ptr() % 16 or any(s * size % 16 or s == 0 for s in strides):
        return None
    return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), [1, 1, tiling.size, room])


def _spans(own: Tensor, others: Tensor, tall: int) -> Int[Tensor, "n blocks 2"]:
    """For every block of `own` ids, a run of `others` outside which none has an id of the block.

    As short as can be when ids only grow, as those of packed texts do. Padding has none of the ids.
    """
    huge = torch.iinfo(own.dtype).max
    padded = torch.nn.functional.pad(own, (0, -own.shape[-1] % tall), value=-1).reshape(len(own), -1, tall)
    least = padded.masked_fill(padded < 0, huge).amin(-1)
    most = padded.amax(-1)
    reached = others.cummax(-1).values
    ahead = others.masked_fill(others < 0, huge).flip(-1).cummin(-1).values.flip(-1).contiguous()
    first = torch.searchsorted(reached, least)
    last = torch.searchsorted(ahead, most, right=True)
    return torch.stack([first, torch.where(most < 0, 0, last)], -1).to(torch.int32).contiguous()


@lru_cache(maxsize=64)
def _columns(keys: int, width: int, tall: int) -> tuple[int, Int[Tensor, "w parts"]]:
    """How many columns of a map may lie in a tile of keys, and where the parts of every column are.

    A tile has a number for each of its columns. A column may lie in several tiles; what it lacks of the most
    that any has is one past all numbers, where a zero is put.
    """
    start = torch.arange(0, keys, tall)
    first = start * width // keys
    last = ((start + tall).clamp_max(keys) - 1) * width // keys
    counts = last - first + 1
    segments = triton.next_power_of_2(int(counts.max()))
    tile = torch.repeat_interleave(torch.arange(len(start)), counts)
    segment = torch.arange(len(tile)) - (counts.cumsum(0) - counts)[tile]
    column = first[tile] + segment
    place = torch.arange(len(tile)) - torch.searchsorted(column, column)  # which of the parts of its column
    where = torch.full((width, int(place.max()) + 1), len(start) * segments)
    where[column, place] = tile * segments + segment
    return segments, where
