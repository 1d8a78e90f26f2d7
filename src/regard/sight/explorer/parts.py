"""Some positions of a call as a call of its own: the queries that are looked at, the keys of a tile."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Int
from torch import Tensor

from regard.attention.biases import Bias
from regard.attention.call import Call
from regard.attention.masks import Mask
from regard.attention.reach import Extent, Reach

Positions = range | Int[Tensor, " n"]


def part(call: Call, queries: Positions | None = None, keys: Positions | None = None) -> Call:
    """The call of these queries over these keys. Over some of the keys its log-sum-exp is that of their scores alone."""
    whole = call.extent
    rows = _index(range(whole.queries) if queries is None else queries, whole.device)
    columns = _index(range(whole.keys) if keys is None else keys, whole.device)
    mask = None if call.mask is None else _PartMask(call.mask, whole, rows, columns, _shift(queries, keys))
    bias = None if call.bias is None else _PartBias(call.bias, whole, rows, columns)
    query = call.query if queries is None else _taken(call.query, queries)
    key = call.key if keys is None else _taken(call.key, keys)
    return replace(call, query=query, key=key, mask=mask, bias=bias)


def _taken(tensor: Tensor, positions: Positions) -> Tensor:
    if isinstance(positions, range):
        return tensor[..., positions.start : positions.stop : positions.step, :]
    return tensor.index_select(-2, positions)


def _index(positions: Positions, device: torch.device) -> Tensor:
    if isinstance(positions, Tensor):
        return positions
    return torch.arange(positions.start, positions.stop, positions.step, device=device)


def _shift(queries: Positions | None, keys: Positions | None) -> int | None:
    """How much j − i of the whole is more than of the part; None where that is not one number."""
    starts = []
    for positions in (queries, keys):
        if positions is not None and not (isinstance(positions, range) and positions.step == 1):
            return None
        starts.append(0 if positions is None else positions.start)
    return starts[1] - starts[0]


@dataclass(frozen=True, eq=False)
class _PartMask(Mask):
    mask: Mask
    whole: Extent
    rows: Tensor
    columns: Tensor
    shift: int | None

    def band(self, extent: Extent) -> tuple[int | None, int | None]:
        if self.shift is None:
            return None, None
        low, high = self.mask.band(self.whole)
        return None if low is None else low - self.shift, None if high is None else high - self.shift

    def reach(self, extent: Extent) -> Reach:
        whole = self.mask.reach(self.whole).spelt()
        if self.shift is None and (whole.low, whole.high) != (None, None):
            return super().reach(extent)
        low, high = self.band(extent)
        return Reach(
            extent=extent,
            low=None if whole.low is None else low,
            high=None if whole.high is None else high,
            queries=None if whole.queries is None else _some(whole.queries, self.rows),
            keys=None if whole.keys is None else _some(whole.keys, self.columns),
            rest=None if whole.rest is None else _some(_some(whole.rest.mT, self.rows).mT, self.columns),
        )

    def block(self, rows: Tensor, columns: Tensor, extent: Extent) -> Tensor:
        return self.mask.block(self.rows[rows], self.columns[columns], self.whole)


def _some(flags: Tensor, positions: Tensor) -> Tensor:
    """Flags at some positions of the last axis, where one flag may apply to all."""
    return flags if flags.shape[-1] == 1 else flags.index_select(-1, positions)


@dataclass(frozen=True, eq=False)
class _PartBias(Bias):
    bias: Bias
    whole: Extent
    rows: Tensor
    columns: Tensor

    def block(self, rows: Tensor, columns: Tensor, extent: Extent) -> Tensor:
        return self.bias.block(self.rows[rows], self.columns[columns], self.whole)
