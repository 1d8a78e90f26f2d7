"""Launching the evidence kernels: their common arguments, the memory for results, and what is compiled for which call."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
import triton
from jaxtyping import Float, Int
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from regard.sight.kernels.cells import cells_kernel
from regard.sight.kernels.kernel_mask import KernelCall
from regard.sight.kernels.keys import keys_kernel
from regard.sight.kernels.rows import rows_kernel
from regard.sight.kernels.single_pass import settle_kernel, single_pass_kernel
from regard.sight.kernels.tilings import (
    EvidenceTiling,
    Pass,
    bands_in_tiles,
    columns_in_tile,
    padded_width,
    tiling_of,
)
from regard.sight.kernels.top_keys import sift_kernel

CACHED = 16 * 2**20  # bytes of keys, of the 60 MB that the cache of an H200 holds
FEW = 8  # top keys for which bunches are kept
MAX_TOP = 64  # top keys in a list: more would not fit into the registers
_GRAIN = 16  # keys whose masses a warp can sum alone


@dataclass(frozen=True, kw_only=True, eq=False)
class QueryEvidence:
    """What the kernels compute for each query; `keys` and `weights` are its top keys, if `top` was positive."""

    level: Float[Tensor, "entries q"]  # log2 Σ 2^score
    entropy: Float[Tensor, "entries q"]
    peak: Float[Tensor, "entries q"]
    keys: Int[Tensor, "entries q n"]
    weights: Float[Tensor, "entries q n"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Everything:
    """The result of one pass when the log-sum-exp is known."""

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
    tiling: EvidenceTiling | None = None,
) -> QueryEvidence:
    """Loop over the keys of every query. `positions` are those of the queries, if they are not 0, 1, 2 …

    `level` is the log-sum-exp of every query, if it is known: the pass is then cheaper. With a level and `top` from 1 to
    FEW, only the top keys are computed. With a larger `top`, the level is not used.
    """
    few = 0 < top <= FEW
    level = level if few or not top else None
    kind: Pass = "top" if few else "many" if top else "rows"
    if level is not None:
        kind = "top, given" if few else "rows, given"
    tiling = tiling or tiling_of(call, kind)
    shape, device = (call.entries, call.query.shape[-2]), call.query.device
    slots = 1 << max(top - 1, 0).bit_length()
    each = torch.empty(3, *shape, device=device)
    rows = QueryEvidence(
        level=each[0] if level is None else level,
        entropy=each[1],
        peak=each[2],
        keys=torch.empty(*shape, top, dtype=torch.long, device=device),
        weights=torch.empty(*shape, top, device=device),
    )
    bunch = torch.empty(*shape, slots, dtype=torch.int32, device=device) if few else None
    one = 16 if triton.knobs.runtime.interpret else 1  # a query per warp; the interpreter would take too long
    with _device_of(call.query):
        rows_kernel[_grid(call, tiling.tall)](
            *_shared(call, tiling), _beside(call, call.key), positions,
            rows.level, rows.entropy, rows.peak, rows.keys, rows.weights, bunch,
            TOP=0 if few else top, SLOTS=slots, PARTS=tiling.parts if few else 0, KNOWN=level is not None,
            LANES=_lanes(call), EXACT=exact(call), **_compiled(call, tiling),
        )  # fmt: skip
        if few:
            sift_kernel[_grid(call, one)](
                *_shared(call), rows.level, bunch, rows.keys, rows.weights,
                TALL=one, BUNCH=tiling.size // (tiling.parts * _lanes(call)), WIDTH=call.query.shape[-1], PADDED=padded_width(call),
                TOP=top, SLOTS=slots, LANES=_lanes(call), num_warps=1,
            )  # fmt: skip
    return rows


def collect(
    call: KernelCall,
    level: Tensor,
    size: tuple[int, int] | None = None,
    *,
    tiling: EvidenceTiling | None = None,
) -> tuple[Float[Tensor, "entries k"], Float[Tensor, "entries h w"]]:
    """The mass that every key received and, with a `size`, that in the cells of a map of so many rows and columns."""
    queries, keys, entries = call.query.shape[-2], call.key.shape[-2], call.entries
    height, width = size or (1, 1)
    tiling = tiling or tiling_of(call, "map" if size else "keys", size)
    tiles = -(-keys // tiling.tall)
    whole = bands_in_tiles(size, queries, tiling.size)
    if whole == 1 and keys % (width * _GRAIN):
        whole = 2
    segments = tiling.tall // _GRAIN if whole < 2 else columns_in_tile(keys, width, tiling.tall)
    # In tiles of 128 queries the branch that this spares costs less than the registers that it takes.
    banded = whole == 1 and tiling.size <= 64 and queries == height * tiling.size
    received = torch.empty(entries, keys, device=call.query.device)
    # Zeros, since a band of queries that may not look at a tile of keys writes nothing.
    cells = torch.zeros(entries, height, tiles * segments, device=call.query.device) if size else None
    with _device_of(call.query):
        keys_kernel[(entries * tiles,)](
            *_shared(call, tiling, owner="keys"), _beside(call, call.query), level, received, cells, height, width,
            MAP=whole, BANDED=banded, SEGMENTS=segments, LANES=_lanes(call), EXACT=exact(call), **_compiled(call, tiling),
        )  # fmt: skip
    if cells is None:
        return received, received.new_empty(entries, 0, 0)
    if whole == 1:
        return received, cells[..., : keys // _GRAIN].reshape(entries, height, width, -1).sum(-1)
    # A column may be in several tiles; where it is in fewer than others, it adds the zero past all cells.
    column = torch.arange(width, device=cells.device)[:, None]
    first, last = (-(-(column + more) * keys // width) - more for more in (0, 1))
    tile = first // tiling.tall + torch.arange(
        (-(-keys // width) - 2) // tiling.tall + 2, device=cells.device
    )
    part = tile * segments + column - tile * tiling.tall * width // keys
    part = torch.where(tile <= last // tiling.tall, part, tiles * segments)
    return received, torch.nn.functional.pad(cells, (0, 1))[..., part].sum(-1)


def fits_single_pass(call: KernelCall, size: tuple[int, int] | None) -> bool:
    """Whether one pass is enough, given the log-sum-exp: in 16 bits, and with a map whose cells are of whole tiles."""
    if exact(call) or padded_width(call) > 128:
        return False
    queries, keys = call.query.shape[-2], call.key.shape[-2]
    return size is None or not (queries % (size[0] * 64) or keys % (size[1] * 64))


def single_pass(
    call: KernelCall,
    level: Tensor,
    size: tuple[int, int] | None = None,
    *,
    tiling: EvidenceTiling | None = None,
) -> Everything:
    """Everything in one pass over the keys of every query, of which the log-sum-exp is known."""
    query, keys, entries = call.query, call.key.shape[-2], call.entries
    queries = query.shape[-2]
    height, width = size or (0, 0)
    tiling = tiling or tiling_of(call, "single pass", size)
    rows = torch.empty(2, entries, queries, device=query.device)
    count = entries * (keys + height * width)
    raw = torch.zeros(count, dtype=torch.int64, device=query.device)
    masses = torch.empty(count, device=query.device)
    finest = 2.0 ** (62 - (queries - 1).bit_length())  # a key gets at most 1 of every query
    across = max(1, 16 * tiling.warps // tiling.size)
    with _device_of(query):
        single_pass_kernel[_grid(call, tiling.tall)](
            *_shared(call, tiling), _beside(call, call.key),
            level, rows[0], rows[1], raw, raw[entries * keys :] if size else None, height, width, finest,
            MAP=size is not None, DOWN=tiling.warps // across, SIDES=across,
            EVEN=call.ranges is None and not (queries % tiling.tall or keys % tiling.size), **_compiled(call, tiling),
        )  # fmt: skip
        settle_kernel[(-(-count // 1024),)](raw, masses, count, 1 / finest, SIZE=1024)
    return Everything(
        entropy=rows[0],
        peak=rows[1],
        received=masses[: entries * keys].view(entries, keys),
        cells=masses[entries * keys :].view(entries, height, width) if size else None,
    )


def cut(
    call: KernelCall, rows: Int[Tensor, " r"], columns: Int[Tensor, " c"]
) -> Float[Tensor, "entries r c"]:
    """The exact weights of some queries on some keys."""
    weights = torch.empty(call.entries, len(rows), len(columns), device=rows.device)
    if weights.numel() == 0:
        return weights
    asking = call.of(rows)
    few = asking.on(columns)
    rows, columns = rows.to(torch.int32), columns.to(torch.int32)
    level = look(asking, positions=rows).level
    tile = 32
    grid = (call.entries * -(-len(rows) // tile) * -(-len(columns) // tile),)
    with _device_of(weights):
        cells_kernel[grid](
            *_shared(few), level, rows, columns, weights,
            TALL=tile, SIZE=tile, WIDTH=few.query.shape[-1], PADDED=padded_width(few),
        )  # fmt: skip
    return weights


def exact(call: KernelCall) -> bool:
    """Whether products are made without a tensor core. Triton's interpreter cannot multiply bfloat16."""
    dtype = call.query.dtype
    return dtype == torch.float32 or (triton.knobs.runtime.interpret and dtype == torch.bfloat16)


def _shared(
    call: KernelCall, tiling: EvidenceTiling | None = None, *, owner: Literal["queries", "keys"] = "queries"
) -> tuple[Any, ...]:
    """The arguments that all kernels begin with. A tiling adds what kernels that loop over tiles need."""
    query, key, packed = call.query, call.key, call.documents
    ids = (None, None) if packed is None else (packed.query_ids, packed.key_ids)
    described: list[TensorDescriptor | None] = [None, None]
    spans = None
    if tiling is not None:
        looped = 1 if owner == "queries" else 0
        described[looped] = _descriptor((query, key)[looped], call, tiling)
        if packed is not None:
            spans = packed.spans(owner, tiling.tall)
    share, groups = 1 if packed is None else packed.share, query.shape[1] // key.shape[1]
    return (
        query, key, *described, call.ranges, *ids, spans, call.slopes,
        query.shape[-2], key.shape[-2], query.shape[1], groups, share,
        *query.stride()[:3], *key.stride()[:3], call.scale, call.shift, call.low, call.high,
    )  # fmt: skip


def _compiled(call: KernelCall, tiling: EvidenceTiling) -> dict[str, Any]:
    """What kernels that loop over tiles are compiled for."""
    sizes = {
        "TALL": tiling.tall,
        "SIZE": tiling.size,
        "WIDTH": call.query.shape[-1],
        "PADDED": padded_width(call),
    }
    return {**sizes, "STAGES": tiling.stages, "num_warps": tiling.warps, "maxnreg": tiling.registers}


def _lanes(call: KernelCall) -> int:
    """How a tensor core leaves the columns of a product: two to a thread, four threads to a row."""
    return 1 if call.query.dtype == torch.float32 else 4


def _grid(call: KernelCall, tall: int) -> tuple[int]:
    return (call.entries * -(-call.query.shape[-2] // tall),)


def _beside(call: KernelCall, others: Tensor) -> int:
    """How many entries are processed at the same time, each from its longest rows to its shortest.

    With more entries the last programs to run are shorter, so fewer processors are idle at the end. But the `others` that
    the programs of all these entries loop over should fit into the cache.
    """
    if call.high is None:
        return 1
    return max(1, min(call.entries, CACHED * call.entries // (others.numel() * others.element_size())))


def _device_of(tensor: Tensor) -> AbstractContextManager[Any]:
    """Makes the device of a tensor the current one."""
    if not tensor.is_cuda or tensor.device.index == torch.cuda.current_device():
        return nullcontext()
    return torch.cuda.device(tensor.device)


def _descriptor(tensor: Tensor, call: KernelCall, tiling: EvidenceTiling) -> TensorDescriptor | None:
    """How the copy engine finds a tile; None for a tensor it cannot read: it wants multiples of 16 bytes."""
    size, strides = tensor.element_size(), tensor.stride()[:3]
    if not tiling.described or tensor.data_ptr() % 16 or any(s * size % 16 or s == 0 for s in strides):
        return None
    block = [1, 1, tiling.size, padded_width(call)]
    return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), block)
