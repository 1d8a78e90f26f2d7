"""What every kernel is told of a call, in the order in which they all take it."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import triton
from jaxtyping import Int
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from regard.sight.kernels.kernel_mask import KernelCall
from regard.sight.kernels.tilings import Tiling, room_of

CACHED = 16 * 2**20  # bytes of keys, of the 60 MB that the cache of an H200 holds


def sizes(call: KernelCall) -> tuple[int, int, int, int, int]:
    """Queries, keys, heads, query heads a key head, and entries that share ids of documents."""
    heads, share = call.query.shape[1], 1 if call.documents is None else call.documents.share
    return call.query.shape[-2], call.key.shape[-2], heads, heads // call.key.shape[1], share


def beside(call: KernelCall, others: Tensor) -> int:
    """How many entries are gone over beside one another, each from its longest rows to its shortest.

    The more there are, the shorter what comes last, for which the chip waits; but the `others` of all of them, which
    rows are held against, should stay in the cache.
    """
    if call.high is None:
        return 1
    return max(1, min(call.entries, CACHED * call.entries // (others.numel() * others.element_size())))


def numbers(call: KernelCall) -> tuple[int | float, ...]:
    """Strides of query and key, scale, where the first query stands, and the limits of the band."""
    strides = (*call.query.stride()[:3], *call.key.stride()[:3])
    return (*strides, call.scale, call.shift, call.low or 0, call.high or 0)


def flags(call: KernelCall, *without: str) -> dict[str, Any]:
    """What kernels are compiled for, without the words that some do not know."""
    known = {
        "WIDTH": call.query.shape[-1],
        "ROOM": room_of(call),
        "EXACT": exact(call),
        # Where a tensor core leaves the columns of a product: two to a thread, four threads to a row.
        "LANES": 1 if call.query.dtype == torch.float32 else 4,
        "SLOPED": call.slopes is not None,
        "LOW": call.low is not None,
        "HIGH": call.high is not None,
        "PACKED": call.documents is not None,
    }
    return {name: flag for name, flag in known.items() if name not in without}


def exact(call: KernelCall) -> bool:
    """Whether products are made without a tensor core. Triton's interpreter cannot multiply bfloat16."""
    return call.query.dtype == torch.float32 or (
        triton.knobs.runtime.interpret and call.query.dtype == torch.bfloat16
    )


def masking(
    call: KernelCall, tall: int | None = None, *, owner: str = "queries"
) -> tuple[Tensor | None, ...]:
    """Ranges, ids of documents, and slopes; before these, where programs own `tall` queries or keys, what they meet."""
    packed = call.documents
    told = (call.ranges, *((None, None) if packed is None else (packed.asking, packed.asked)))
    if tall is None:
        return (*told, call.slopes)
    met = None
    if packed is not None:
        both = (packed.asking, packed.asked) if owner == "queries" else (packed.asked, packed.asking)
        met = _spans(*both, tall)
    return (*told, met, call.slopes)


def on(tensor: Tensor) -> AbstractContextManager[Any]:
    """The device of a tensor, as the current one."""
    if not tensor.is_cuda or tensor.device.index == torch.cuda.current_device():
        return nullcontext()
    return torch.cuda.device(tensor.device)


def descriptor(tensor: Tensor, call: KernelCall, tiling: Tiling) -> TensorDescriptor | None:
    """How the copy engine finds a tile; None for a tensor it cannot read: it wants multiples of 16 bytes."""
    size, strides = tensor.element_size(), tensor.stride()[:3]
    if not tiling.described or tensor.data_ptr() % 16 or any(s * size % 16 or s == 0 for s in strides):
        return None
    return TensorDescriptor(
        tensor, list(tensor.shape), list(tensor.stride()), [1, 1, tiling.size, room_of(call)]
    )


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
