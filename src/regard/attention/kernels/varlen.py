"""Attention over packed sequences: on the kernel of stretches where there is one, else with a row for every sequence."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.call import Call
from regard.attention.kernels.triton_available import TRITON_INSTALLED
from regard.attention.packing import Packing, Packs
from regard.attention.reach import Extent, Reach
from regard.attention.scores import Additive
from regard.errors import RegardError


class CaptureError(RegardError):
    """What a call computes depends on more than the shapes it is given."""


_WIDEST = 256  # features of a head for which the kernel has room


def intervals_refusal(call: Call, reach: Reach) -> str | None:
    """Why the kernel of stretches cannot compute a call over packed sequences; None if it can."""
    if call.query.device.type != "cuda":
        return "it is a kernel for GPUs"
    if not TRITON_INSTALLED:
        return "triton is not installed"
    if call.bias is not None or isinstance(call.score, Additive):
        return "it takes dot products without a bias"
    if reach.bounded not in ((None, None), (None, 0)):
        return "it looks at whole sequences, or back to their beginning"
    if call.query.dtype == torch.float64 or max(call.query.shape[-1], call.key.shape[-1]) > _WIDEST:
        return f"it takes numbers of at most 32 bits and heads of at most {_WIDEST} features"
    return None


def intervals(
    query: Float[Tensor, "*one h q d"],
    key: Float[Tensor, "*one g k d"],
    value: Float[Tensor, "*one g k dv"],
    reach: Reach,
    *,
    scale: float,
    dropout: float,
) -> Float[Tensor, "*one h q dv"]:
    """dropout(softmax(scale · QKᵀ)) V, each query over the stretch of keys that is its own sequence."""
    from regard.attention.kernels.intervals import Stretches, attend_stretches

    packs = _packs(reach)
    back = reach.bounded == (None, 0)
    last = packs.until if back else packs.last
    asked_first = packs.since if back else packs.turned.first
    mixed = attend_stretches(
        _positions_first(query),
        _positions_first(key),
        _positions_first(value),
        Stretches(packs.first, last, asked_first, packs.turned.last),
        scale=scale,
        dropout=dropout,
    )
    return mixed.transpose(0, 1).reshape(*query.shape[:-1], value.shape[-1])


def _positions_first(x: Float[Tensor, "*one h n d"]) -> Float[Tensor, "n h d"]:
    if x.shape[:-3].numel() != 1 or x.ndim < 3:
        raise RegardError(
            f"packed sequences lie in one row: [1, heads, positions, width], not {tuple(x.shape)}"
        )
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
            f"rows as long as their longest sequence cannot be captured in a CUDA graph: {intervals_refusal(call, reach)}"
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
