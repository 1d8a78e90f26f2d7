"""One call from many: the steps of a decoder with a cache, laid under one another.

A step asks for a few new queries over all keys so far. The keys of the last step hold those of every step before,
so the queries of all steps over those keys, each under the mask of its own step, are the attention of the whole
text. With beams, the rows of a step are followed back along the beam that each finished text came from.

Rows that ask one memory may do so as several queries of one call, so that the memory is not copied: row r is then
query r % group of entry r // group.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from einops import rearrange
from jaxtyping import Int
from torch import Tensor

from regard.attention.biases import Bias
from regard.attention.call import Call
from regard.attention.masks import Mask
from regard.attention.reach import Extent, pad_axes
from regard.errors import RegardError

Beams = Int[Tensor, "texts steps"]


def stitch(name: str, calls: Sequence[Call], beams: Beams | None = None) -> Call:
    """The call whose queries are those of all steps. `beams[i, t]` is the row that text i came from at step t, −1
    after its end; without beams every row is a text.

    With beams a step after the first adds one position to a text. Several queries over keys that did not grow are
    then several rows that share a memory.
    """
    _check(name, calls)
    if beams is None:
        rows = calls[0].query.shape[0]
        if any(call.query.shape[0] != rows for call in calls):
            raise RegardError(
                f"the steps of {name} have batches of different sizes: give the beams they came from"
            )
        beams = torch.arange(rows)[:, None].expand(rows, len(calls))
        groups = [1] * len(calls)
    else:
        groups = _groups(calls, beams)
    beams = beams.to(calls[0].query.device)[:, : len(calls)]
    steps, start = [], 0
    for call, came_from, group in zip(calls, beams.unbind(1), groups, strict=False):
        added = call.extent.queries // group
        steps.append(_Step(slice(start, start + added), call, came_from, group))
        steps[-1].check(name, len(steps) - 1)
        start += added
    query = torch.cat([step.rows_of(step.call.query) for step in steps], dim=-2)
    return Call(
        query,
        _last_keys(steps, beams),
        _StepMask(tuple(steps)),
        None if all(step.call.bias is None for step in steps) else _StepBias(tuple(steps)),
        calls[0].score,
        calls[0].scale,
    )


@dataclass(frozen=True, eq=False)
class _Step:
    place: slice  # of its queries among all
    call: Call
    came_from: Int[Tensor, " texts"]
    group: int  # rows that are queries of one entry

    def check(self, name: str, number: int) -> None:
        """Refuse a row that the step does not have."""
        rows, last = self.call.query.shape[0] * self.group, int(self.came_from.max())
        if last >= rows:
            raise RegardError(
                f"beams name row {last} at step {number}, but {name} had {rows} rows there: these are not the beams "
                "of this decode"
            )

    def asked(self, here: Tensor) -> Tensor:
        """The queries of the call that stand for some of the new positions."""
        return here if self.group == 1 else torch.arange(self.group, device=here.device)

    def rows_of(self, tensor: Tensor) -> Tensor:
        """The rows of the texts, from [entries, heads, queries, n]; zeros for a text that has ended."""
        if self.group > 1:
            tensor = tensor.expand(self.call.query.shape[0], -1, self.group, -1)
            tensor = rearrange(tensor, "entry h row n -> (entry row) h 1 n")
        elif tensor.shape[0] < self.call.query.shape[0]:  # one for all
            return tensor
        picked = tensor[self.came_from.clamp_min(0)]
        alive = (self.came_from >= 0).reshape(-1, *([1] * (tensor.ndim - 1)))
        return torch.where(alive, picked, torch.zeros((), dtype=tensor.dtype, device=tensor.device))

    def alive(self) -> Tensor:
        """[texts, 1, 1, 1]: whether a text still goes on."""
        return (self.came_from >= 0)[:, None, None, None]


def _groups(calls: Sequence[Call], beams: Beams) -> list[int]:
    """How many rows of each step are queries of one entry of its batch."""
    first, rows = calls[0].query, int(beams[:, 0].max()) + 1
    groups = [first.shape[-2] if rows > first.shape[0] else 1]  # otherwise they may be a prompt
    for before, after in pairwise(calls):
        shared = after.extent.keys == before.extent.keys
        groups.append(after.extent.queries if shared else 1)
    return groups


def _check(name: str, calls: Sequence[Call]) -> None:
    if not calls:
        raise RegardError(f"{name} has no steps to stitch")
    for before, after in pairwise(calls):
        if before.query.ndim != 4 or after.query.ndim != 4:
            raise RegardError(f"the steps of {name} are not [batch, heads, positions, width]")
        grown = after.extent.keys - before.extent.keys
        if grown not in (0, after.extent.queries):
            raise RegardError(
                f"{name} went from {before.extent.keys} to {after.extent.keys} keys with {after.extent.queries} new "
                "queries: these are not the steps of one text"
            )


def _last_keys(steps: list[_Step], beams: Beams) -> Tensor:
    """The keys of each text at its last step, filled up with zeros to the longest."""
    last = (beams >= 0).long().cumsum(1).argmax(1)  # the step at which the count of living steps peaks first
    longest = max(step.call.extent.keys for step in steps)
    rows = []
    for text, step in enumerate(last.tolist()):
        key = steps[step].call.key[beams[text, step] // steps[step].group]
        rows.append(torch.nn.functional.pad(key, (0, 0, 0, longest - key.shape[-2])))
    return torch.stack(rows)


@dataclass(frozen=True, eq=False)
class _StepMask(Mask):
    steps: tuple[_Step, ...]

    def block(self, rows: Tensor, columns: Tensor, extent: Extent) -> Tensor:
        parts = []
        for step, here in _split(self.steps, rows):
            own = step.call.extent
            inside = columns < own.keys
            allowed = inside.expand(1, 1, len(here), len(columns))
            if step.call.mask is not None:
                block = step.call.mask.block(step.asked(here), columns.clamp_max(own.keys - 1), own)
                allowed = allowed & step.rows_of(pad_axes(block, 2, tail=2))
            parts.append(allowed & step.alive())
        return _stack(parts, len(rows), len(columns), rows.device)


@dataclass(frozen=True, eq=False)
class _StepBias(Bias):
    steps: tuple[_Step, ...]

    def block(self, rows: Tensor, columns: Tensor, extent: Extent) -> Tensor:
        parts = []
        for step, here in _split(self.steps, rows):
            own = step.call.extent
            if step.call.bias is None:
                parts.append(torch.zeros(1, 1, len(here), len(columns), device=rows.device))
                continue
            block = step.call.bias.block(step.asked(here), columns.clamp_max(own.keys - 1), own)
            parts.append(step.rows_of(block.reshape(*([1] * (4 - block.ndim)), *block.shape)))
        return _stack(parts, len(rows), len(columns), rows.device)


def _split(steps: Sequence[_Step], rows: Tensor) -> list[tuple[_Step, Tensor]]:
    """The steps that some ascending rows fall into, each with those rows counted from its own first."""
    found = []
    for step in steps:
        here = rows[(rows >= step.place.start) & (rows < step.place.stop)]
        if len(here):
            found.append((step, here - step.place.start))
    return found


def _stack(parts: list[Tensor], rows: int, columns: int, device: torch.device) -> Tensor:
    if not parts:
        return torch.zeros(1, 1, rows, columns, dtype=torch.bool, device=device)
    batch = [max(part.shape[axis] for part in parts) for axis in (0, 1)]
    return torch.cat([part.expand(*batch, *part.shape[-2:]) for part in parts], dim=-2)
