"""Part of a call as a call of its own: some batch entries and heads, some queries and keys."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Int
from torch import Tensor, nn

from regard.attention.batch_axes import pad_axes
from regard.attention.biases import Bias
from regard.attention.call import Call
from regard.attention.masks import Mask
from regard.attention.reach import Extent, Reach
from regard.attention.scores import Score, share
from regard.errors import RegardError

Choice = int | slice | Sequence[int] | None
Positions = range | Int[Tensor, " n"]


def positions(choice: Choice, size: int, what: str) -> list[int]:
    """The positions that an int, a slice, a list or None (all) chooses among `size`."""
    if choice is None:
        return list(range(size))
    if isinstance(choice, slice):
        return list(range(size))[choice]
    chosen = [choice] if isinstance(choice, int) else [int(each) for each in choice]
    for each in chosen:
        if not -size <= each < size:
            raise RegardError(f"{what} {each}, but there are only {size}")
    return [each % size for each in chosen]


def select(call: Call, *, batch: Choice = None, heads: Choice = None) -> Call:
    """The call of these entries of the batch (axis 0) and these heads (axis −3)."""
    if batch is None and heads is None:
        return call
    axes = call.query.shape[:-2]
    if heads is not None and not axes:
        raise RegardError("a call without batch axes has no heads to choose from")
    if batch is not None and len(axes) < 2:
        raise RegardError(f"a call of shape {tuple(call.query.shape)} has heads but no batch to choose from")
    chosen = [list(range(size)) for size in axes]
    if batch is not None:
        chosen[0] = positions(batch, axes[0], "batch entry")
    if heads is not None:
        chosen[-1] = positions(heads, axes[-1], "head")
    return picked(call, chosen)


def picked(call: Call, chosen: Sequence[Sequence[int]]) -> Call:
    """The call of these positions along each of its batch axes, the heads last."""
    axes = call.query.shape[:-2]
    query, key = call.query, share(call.key, call.query)
    for axis, kept in enumerate(chosen):
        if list(kept) != list(range(axes[axis])):
            index = torch.tensor(kept, device=query.device)
            query, key = query.index_select(axis, index), key.index_select(axis, index)
    mask = None if call.mask is None else _ChosenMask(call.mask, tuple(map(tuple, chosen)))
    bias = None if call.bias is None else _ChosenBias(call.bias, tuple(map(tuple, chosen)))
    score = _score_of(call.score, list(chosen[-1]), axes[-1]) if axes else call.score
    return replace(call, query=query, key=key, mask=mask, bias=bias, score=score)


def part(call: Call, queries: Positions | None = None, keys: Positions | None = None) -> Call:
    """The call of these queries over these keys; its log-sum-exp is that over these keys alone."""
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


def _score_of(score: Score, heads: list[int], count: int) -> Score:
    """The score with the weights of these heads alone, where it has one set a head."""
    one_head = {"vector": 1, "log_temperature": 0}
    own = {name: weight for name, weight in score.named_parameters() if weight.ndim > one_head.get(name, 2)}
    if not own:
        return score
    chosen = copy.copy(score)
    chosen._parameters = dict(score._parameters)
    for name, weight in own.items():
        every = weight.detach().repeat_interleave(count // weight.shape[0], 0)  # keys may have fewer heads
        chosen._parameters[name] = nn.Parameter(every[heads], requires_grad=False)
    return chosen


def _pick(matrix: Tensor, chosen: tuple[tuple[int, ...], ...]) -> Tensor:
    for axis, kept in enumerate(chosen):
        if matrix.shape[axis] > 1:
            matrix = matrix.index_select(axis, torch.tensor(kept, device=matrix.device))
    return matrix


@dataclass(frozen=True, eq=False)
class _ChosenMask(Mask):
    mask: Mask
    chosen: tuple[tuple[int, ...], ...]

    def band(self, extent: Extent) -> tuple[int | None, int | None]:
        return self.mask.band(extent)

    def reach(self, extent: Extent) -> Reach:
        whole = self.mask.reach(extent).spelt().over(len(self.chosen))
        queries, keys, rest = (
            None if part is None else _pick(part, self.chosen)
            for part in (whole.queries, whole.keys, whole.rest)
        )
        return replace(whole, asking=queries, asked=keys, rest=rest)

    def block(self, rows: Tensor, columns: Tensor, extent: Extent) -> Tensor:
        return _pick(pad_axes(self.mask.block(rows, columns, extent), len(self.chosen), tail=2), self.chosen)


@dataclass(frozen=True, eq=False)
class _ChosenBias(Bias):
    bias: Bias
    chosen: tuple[tuple[int, ...], ...]

    def block(self, rows: Tensor, columns: Tensor, extent: Extent) -> Tensor:
        matrix = self.bias.block(rows, columns, extent)
        spare = len(self.chosen) + 2 - matrix.ndim
        return _pick(matrix.reshape(*([1] * spare), *matrix.shape), self.chosen)


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
            asking=None if whole.queries is None else _some(whole.queries, self.rows),
            asked=None if whole.keys is None else _some(whole.keys, self.columns),
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
