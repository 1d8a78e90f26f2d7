"""What keys get, when queries have been gone over and bands of a map may begin and end anywhere."""

from functools import lru_cache

import torch
import triton
from jaxtyping import Float, Int
from torch import Tensor

from regard.sight.kernels.arguments import beside, descriptor, flags, masking, numbers, on, sizes
from regard.sight.kernels.kernel_mask import KernelCall
from regard.sight.kernels.keys import keys_kernel
from regard.sight.kernels.tilings import Tiling, tiling_of

_GRAIN = 16  # keys whose masses a warp can sum alone


def collect(
    call: KernelCall, level: Tensor, size: tuple[int, int] | None = None, *, tiling: Tiling | None = None
) -> tuple[Float[Tensor, "entries k"], Float[Tensor, "entries h w"]]:
    """The mass every key received and, if a `size` is asked, that in the cells of a map of so many rows and columns."""
    query, key = call.query, call.key
    queries, keys, entries = query.shape[-2], key.shape[-2], call.entries
    height, width = size or (1, 1)
    tiling = tiling or tiling_of(call, "map" if size else "keys", size)
    tiles = -(-keys // tiling.tall)
    whole = _meeting(size, queries, tiling.size)
    if whole == 1 and keys % (width * _GRAIN):
        whole = 2
    segments, where = (tiling.tall // _GRAIN, None) if whole < 2 else _columns(keys, width, tiling.tall)
    # In tiles of 128 queries the branch that this spares costs less than the registers that it takes.
    banded = whole == 1 and tiling.size <= 64 and queries == height * tiling.size
    received = torch.empty(entries, keys, device=query.device)
    # A band of queries that may not look at a tile of keys never comes by it.
    cells = torch.zeros(entries, height, tiles * segments, device=query.device) if size else None
    with on(query):
        keys_kernel[(entries * tiles,)](
            query, descriptor(query, call, tiling), key, level, *masking(call, tiling.tall, owner="keys"),
            received, cells, *sizes(call), beside(call, query), height, width, *numbers(call),
            TALL=tiling.tall, SIZE=tiling.size, MAP=whole, BANDED=banded, SEGMENTS=segments,
            STAGES=tiling.stages, num_warps=tiling.warps, maxnreg=tiling.registers, **flags(call),
        )  # fmt: skip
    if cells is None:
        return received, received.new_empty(entries, 0, 0)
    if where is None:
        return received, cells[..., : keys // _GRAIN].reshape(entries, height, width, -1).sum(-1)
    return received, torch.nn.functional.pad(cells, (0, 1))[..., where.to(cells.device)].sum(-1)


def _meeting(size: tuple[int, int] | None, queries: int, tile: int) -> int:
    """How bands of queries and tiles meet: 0 without bands, 1 in whole tiles, 2 at most two in a tile, 3 many."""
    if size is None:
        return 0
    tall, uneven = divmod(queries, size[0])
    return 1 if not uneven and tall % tile == 0 else 2 if tall >= tile else 3


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
