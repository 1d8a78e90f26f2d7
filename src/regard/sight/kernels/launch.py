"""Launching the kernels that go over the keys of every query, and the one that cuts weights out."""

from dataclasses import dataclass

import torch
import triton
from jaxtyping import Float, Int
from torch import Tensor

from regard.sight.kernels.arguments import beside, descriptor, exact, flags, masking, numbers, on, sizes
from regard.sight.kernels.cells import cells_kernel
from regard.sight.kernels.heaviest import bunches_kernel, sift_kernel
from regard.sight.kernels.kernel_mask import KernelCall
from regard.sight.kernels.rows import rows_kernel
from regard.sight.kernels.single_pass import settle_kernel, single_pass_kernel
from regard.sight.kernels.tilings import Tiling, room_of, tiling_of

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
    received: Float[Tensor, "entries k"]
    cells: Float[Tensor, "entries h w"] | None  # sums, not averages


def look(
    call: KernelCall,
    level: Tensor | None = None,
    *,
    top: int = 0,
    positions: Tensor | None = None,
    tiling: Tiling | None = None,
) -> Rows:
    """Go over the keys of every query. `positions` says where the queries stand, if not at 0, 1, 2 …

    With a level it is cheaper, but for a list of the heaviest, which does without.
    """
    level = None if top else level
    tiling = tiling or tiling_of(call, "many" if top else "rows" if level is None else "rows, given")
    rows = _rows(call, top, level)
    with on(call.query):
        rows_kernel[_grid(call, tiling.tall)](
            call.query, call.key, descriptor(call.key, call, tiling), positions, *masking(call, tiling.tall),
            rows.level, rows.entropy, rows.peak, rows.keys, rows.weights, *sizes(call), beside(call, call.key), *numbers(call),
            TALL=tiling.tall, SIZE=tiling.size, TOP=top, SLOTS=_slots(top), KNOWN=level is not None,
            STAGES=tiling.stages, num_warps=tiling.warps, maxnreg=tiling.registers, **flags(call),
        )  # fmt: skip
    return rows


def heaviest(
    call: KernelCall, top: int, level: Tensor | None = None, *, tiling: Tiling | None = None
) -> Rows:
    """The heaviest keys of every query, at most FEW, and if no level is given everything else that is said of it."""
    tiling = tiling or tiling_of(call, "top" if level is None else "top, given")
    rows = _rows(call, top, level)
    bunch = torch.empty(*rows.level.shape, _slots(top), dtype=torch.int32, device=call.query.device)
    known = flags(call)
    few = 16 if triton.knobs.runtime.interpret else 1  # a query a warp; the interpreter would take its time
    with on(call.query):
        bunches_kernel[_grid(call, tiling.tall)](
            call.query, call.key, descriptor(call.key, call, tiling), *masking(call, tiling.tall),
            rows.level, rows.entropy, rows.peak, bunch, *sizes(call), beside(call, call.key), *numbers(call),
            TALL=tiling.tall, SIZE=tiling.size, SLOTS=_slots(top), PARTS=tiling.parts, KNOWN=level is not None,
            STAGES=tiling.stages, num_warps=tiling.warps, maxnreg=tiling.registers, **known,
        )  # fmt: skip
        sift_kernel[_grid(call, few)](
            call.query, call.key, *masking(call), rows.level, bunch, rows.keys, rows.weights,
            *sizes(call), *numbers(call),
            TALL=few, BUNCH=tiling.size // (tiling.parts * known["LANES"]), TOP=top, SLOTS=_slots(top), num_warps=1,
            **flags(call, "EXACT"),
        )  # fmt: skip
    return rows


def fits_once(call: KernelCall, size: tuple[int, int] | None) -> bool:
    """Whether one pass can answer, given the log-sum-exp: in 16 bits, and a map whose cells are of whole tiles."""
    if exact(call) or room_of(call) > 128:
        return False
    queries, keys = call.query.shape[-2], call.key.shape[-2]
    return size is None or not (queries % (size[0] * 64) or keys % (size[1] * 64))


def once(
    call: KernelCall,
    level: Tensor,
    size: tuple[int, int] | None = None,
    *,
    tiling: Tiling | None = None,
) -> Once:
    """Everything in one pass over the keys of every query, of which the log-sum-exp is known."""
    query, key, entries = call.query, call.key, call.entries
    queries, keys = query.shape[-2], key.shape[-2]
    height, width = size or (0, 0)
    tiling = tiling or tiling_of(call, "once", size)
    rows = torch.empty(2, entries, queries, device=query.device)
    count = entries * (keys + height * width)
    raw = torch.zeros(count, dtype=torch.int64, device=query.device)
    masses = torch.empty(count, device=query.device)
    finest = 2.0 ** (62 - (queries - 1).bit_length())  # a key gets at most 1 of every query
    sides = max(1, 16 * tiling.warps // tiling.size)
    with on(query):
        single_pass_kernel[_grid(call, tiling.tall)](
            query, key, descriptor(key, call, tiling), *masking(call, tiling.tall),
            level, rows[0], rows[1], raw, raw[entries * keys :] if size else None, *sizes(call), beside(call, key), height, width, *numbers(call), finest,
            TALL=tiling.tall, SIZE=tiling.size, MAP=size is not None,
            DOWN=tiling.warps // sides, SIDES=sides,
            EVEN=call.ranges is None and not (queries % tiling.tall or keys % tiling.size),
            STAGES=tiling.stages, num_warps=tiling.warps, maxnreg=tiling.registers, **flags(call, "LANES", "EXACT"),
        )  # fmt: skip
        settle_kernel[(-(-count // 1024),)](raw, masses, count, 1 / finest, SIZE=1024)
    return Once(
        entropy=rows[0],
        peak=rows[1],
        received=masses[: entries * keys].view(entries, keys),
        cells=masses[entries * keys :].view(entries, height, width) if size else None,
    )


def cut(
    call: KernelCall, rows: Int[Tensor, " r"], columns: Int[Tensor, " c"]
) -> Float[Tensor, "entries r c"]:
    """The exact weights of some queries on some keys."""
    if 0 in (len(rows), len(columns)):
        return torch.empty(call.entries, len(rows), len(columns), device=rows.device)
    asking = call.of(rows)
    few = asking.on(columns)
    rows, columns = rows.to(torch.int32), columns.to(torch.int32)
    level = look(asking, positions=rows).level
    weights = torch.empty(call.entries, len(rows), len(columns), device=rows.device)
    tile = 32
    grid = (call.entries * -(-len(rows) // tile) * -(-len(columns) // tile),)
    with on(weights):
        cells_kernel[grid](
            few.query, few.key, level, *masking(few), rows, columns, weights, *sizes(few), *numbers(few),
            TALL=tile, SIZE=tile, **flags(few, "LANES", "EXACT"),
        )  # fmt: skip
    return weights


def _rows(call: KernelCall, top: int, level: Tensor | None = None) -> Rows:
    """Room for the answers, in as few pieces as can be."""
    shape, device = (call.entries, call.query.shape[-2]), call.query.device
    each = torch.empty(3, *shape, device=device)
    return Rows(
        level=each[0] if level is None else level,
        entropy=each[1],
        peak=each[2],
        keys=torch.empty(*shape, top, dtype=torch.long, device=device),
        weights=torch.empty(*shape, top, device=device),
    )


def _grid(call: KernelCall, tall: int) -> tuple[int]:
    return (call.entries * -(-call.query.shape[-2] // tall),)


def _slots(top: int) -> int:
    return 1 << max(top - 1, 0).bit_length()
