"""Attention over variable lengths: on their own kernel where there is one; else packed sequences get a row each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.call import Call, by_autocast
from regard.attention.kernels.triton_available import TRITON_INSTALLED
from regard.attention.packing import Packing, Packs
from regard.attention.padding import Real
from regard.attention.reach import Extent, Reach
from regard.errors import RegardError

if TYPE_CHECKING:  # Triton is optional
    from regard.attention.kernels.varlen_launch import Ranges


class CaptureError(RegardError):
    """What a call computes depends on more than the shapes it is given."""


_WIDEST = 256  # features of a head for which the kernel has room


def varlen_refusal(call: Call, reach: Reach) -> str | None:
    """Why the kernel for variable lengths cannot compute a call; None if it can."""
    query, key = call.query, call.key
    if not query.is_cuda:
        return "it is a kernel for GPUs"
    if not TRITON_INSTALLED:
        return "triton is not installed"
    if call.bias is not None or not call.score.dot_product:
        return "it takes dot products without a bias"
    if query.dtype is torch.float64 or query.shape[-1] > _WIDEST or key.shape[-1] > _WIDEST:
        return f"it takes numbers of at most 32 bits and heads of at most {_WIDEST} features"
    if reach.packs is None and not (query.numel() and key.numel()):
        return "there are no queries or no keys"
    if reach.packs is not None:
        banded = reach.bounded not in ((None, None), (None, 0))
        return "it looks at whole packed sequences, or back to their beginning" if banded else None
    if reach.rest is not None:
        return "it takes lengths and a band, and the mask says more than these"
    if query.ndim > 4 or (query.ndim == 3 and call.groups > 1):
        return f"it takes heads in rows of a batch, and here are {query.ndim} axes"
    refusal = _lengths_refusal(reach.asking, query)
    return (
        refusal
        if refusal is not None or reach.asked is reach.asking
        else _lengths_refusal(reach.asked, query)
    )


def _lengths_refusal(real: Tensor | Real | None, query: Tensor) -> str | None:
    """Why the kernel cannot take such padding: lengths that differ between the heads of a row, or of another batch."""
    if real is None:
        return None
    if not isinstance(real, Real):
        return "it takes one length a row, and the mask puts several together"
    if isinstance(real.count, int) or not real.count.ndim:
        return None
    counts, rows = real.count.shape, 1 if query.ndim == 2 else query.shape[0]
    if counts[0] in (1, rows) and (len(counts) == 1 or counts[1:].numel() == 1):
        return None
    return f"it takes one length for all heads of a row, and here are lengths of shape {tuple(counts)}"


def varlen(
    query: Float[Tensor, "*batch q d"],
    key: Float[Tensor, "*kv_batch k d"],
    value: Float[Tensor, "*kv_batch k dv"],
    reach: Reach,
    *,
    scale: float,
    dropout: float,
) -> Float[Tensor, "*batch q dv"]:
    """dropout(softmax(scale · QKᵀ)) V, each query over its range of the keys; zeros where that is empty."""
    from regard.attention.kernels.varlen_launch import attend_varlen

    shape = query.shape
    query, key, value = by_autocast(query, key, value)
    if reach.packs is not None or len(shape) != 4:
        query, key, value = (_four_axes(part, reach.packs is not None) for part in (query, key, value))
    mixed = attend_varlen(query, key, value, _ranges(reach, query), scale=scale, dropout=dropout)
    return mixed if len(shape) == 4 else mixed.reshape(*shape[:-1], value.shape[-1])


def _four_axes(x: Float[Tensor, "*batch n d"], packed: bool) -> Float[Tensor, "b h n d"]:
    if packed:
        _check_row(x)
        return x if x.ndim == 4 else x.reshape(1, *x.shape[-3:])
    return x if x.ndim == 4 else x.unsqueeze(1) if x.ndim == 3 else x[None, None]


def _ranges(reach: Reach, query: Float[Tensor, "b h q d"]) -> "Ranges":
    """The ranges of a mask as the kernel takes them; no launch is needed where lengths are on the device."""
    from regard.attention.kernels.varlen_launch import Ranges

    if reach.packs is None:
        extent = reach.extent
        asking = _counts(reach.asking, extent.queries, query)
        asked = asking if reach.asked is reach.asking else _counts(reach.asked, extent.keys, query)
        return Ranges.of_batch(asking, asked, reach.low, reach.high)
    packs = reach.packs
    back = reach.bounded == (None, 0)
    return Ranges.of_packed(
        packs.first,
        packs.until if back else packs.last,
        packs.since if back else packs.turned.first,
        packs.turned.last,
        gaps=packs.idle,
        longest=max(packs.queries.longest, packs.keys.longest),
    )


def _counts(real: Tensor | Real | None, size: int, query: Tensor) -> tuple[Tensor | None, int, int, bool]:
    if not isinstance(real, Real):
        return None, 0, size, False
    left, count = real.padded == "left", real.count
    if not isinstance(count, Tensor):
        return None, 0, min(count, size), left
    if count.device != query.device:
        count = count.to(query.device)
    return count, count.stride(0) if count.ndim and count.shape[0] > 1 else 0, 0, left


def _check_row(x: Float[Tensor, "*one h n d"]) -> None:
    if x.shape[:-3].numel() != 1 or x.ndim < 3:
        raise RegardError(
            f"packed sequences lie in one row: [1, heads, positions, width], not {tuple(x.shape)}"
        )


def _positions_first(x: Float[Tensor, "*one h n d"]) -> Float[Tensor, "n h d"]:
    _check_row(x)
    return x.reshape(x.shape[-3:]).transpose(0, 1)


@dataclass(frozen=True, eq=False)
class UnpackedRow:
    """Some of the packed sequences of a call, each in a row of its own, filled up with zeros."""

    call: Call
    value: Tensor
    reach: Reach
    sanitised: bool  # nothing unseen is left in it


def in_rows(call: Call, value: Tensor, reach: Reach) -> list[UnpackedRow]:
    """A call over packed sequences as a few over padded ones. The band of its mask and a relative bias mean the same.

    Padding is zeros and unused rows are dropped, so nothing has to be sanitised, unless some sequence has no keys or no
    queries, or positions do not see themselves.
    """
    packs = _packs(reach)
    sanitised = not packs.idle and (reach.low or 0) <= 0 <= (reach.high or 0)
    if call.query.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        raise CaptureError(
            f"rows as long as their longest sequence cannot be captured in a CUDA graph: {varlen_refusal(call, reach)}"
        )
    asking, asked = packs.row_groups
    queries = asking.spread(_positions_first(call.query))
    keys, values = asked.spread(_positions_first(call.key)), asked.spread(_positions_first(value))
    return [
        UnpackedRow(
            replace(call, query=query.transpose(1, 2), key=key.transpose(1, 2), mask=None),
            value.transpose(1, 2),
            _limits(reach, packs, group, query, key),
            sanitised,
        )
        for group, query, key, value in zip(packs.groups, queries, keys, values, strict=True)
    ]


def in_one_row(mixed: Sequence[Tensor], call: Call, reach: Reach) -> Float[Tensor, "*one h q d"]:
    """What came back from the rows, packed again."""
    heads = _packs(reach).row_groups[0].gathered([part.transpose(1, 2) for part in mixed]).transpose(0, 1)
    return heads.reshape(*call.query.shape[:-3], *heads.shape)


def _limits(
    reach: Reach,
    packs: Packs,
    group: list[int],
    query: Float[Tensor, "s n h d"],
    key: Float[Tensor, "s m g e"],
) -> Reach:
    extent = Extent(queries=query.shape[1], keys=key.shape[1], device=query.device)
    back = reach.high is not None and reach.high <= 0  # then filling is ahead of all that count
    asked = _of(packs.keys, group)
    keys = None if back else extent.columns < asked[:, None]
    queries = None
    if packs.idle:
        queries = extent.rows < _of(packs.queries, group)[:, None]
    return Reach(extent=extent, low=reach.low, high=reach.high, asking=queries, asked=keys).over(2)


def _of(packing: Packing, group: list[int]) -> Int[Tensor, " s"]:
    return packing.lengths if len(group) == packing.rows else packing.lengths[group]


def _packs(reach: Reach) -> Packs:
    if reach.packs is None:
        raise RegardError("packed sequences are asked for, and nothing is packed")
    return reach.packs
