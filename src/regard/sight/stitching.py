"""One call from many: the steps of a decoder with a cache, laid under one another.

A step asks for a few new queries over all keys so far, or over the latest of them where the cache is a sliding window,
or over a memory that stays as it is. The queries of all steps over all keys there ever were, each under the mask of its
own step, are the attention of the whole text. With beams, the rows of a step are followed back along the beam that each
finished text came from.

That the steps are those of one text is seen by their keys: what a step still has of the keys before must be the same, to
the bit.

Rows that ask one memory may do so as several queries of one call, so that the memory is not copied: row r is then
query r % group of entry r // group.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from einops import rearrange
from jaxtyping import Bool, Int
from torch import Tensor

from regard.attention.batch_axes import pad_axes
from regard.attention.biases import Bias
from regard.attention.call import Call
from regard.attention.masks import Mask
from regard.attention.reach import Extent
from regard.attention.scores import share
from regard.errors import RegardError

Beams = Int[Tensor, "texts steps"]


def stitch(name: str, calls: Sequence[Call], beams: Beams | None = None) -> Call:
    """The call whose queries are those of all steps. `beams[i, t]` is the row that text i came from at step t, −1
    after its end; without beams every row is a text.

    With beams a step after the first adds one position to a text. Several queries over keys that did not grow are
    then several rows that share a memory.
    """
    steps = follow(name, calls, beams)
    query = torch.cat([step.rows_of(step.call.query) for step in steps], dim=-2)
    return Call(
        query,
        torch.cat([step.new_keys() for step in steps], dim=-2),
        _StepMask(tuple(steps)),
        None if all(step.call.bias is None for step in steps) else _StepBias(tuple(steps)),
        calls[0].score,
        calls[0].scale,
    )


def follow(name: str, calls: Sequence[Call], beams: Beams | None = None) -> list["_Step"]:
    """The steps, each with the place of its queries and keys in the whole text. Raises unless they are one text's."""
    if not calls:
        raise RegardError(f"{name} has no steps to stitch")
    if len(calls) > 1 and any(call.query.ndim != 4 for call in calls):
        raise RegardError(f"the steps of {name} are not [batch, heads, positions, width]")
    if len({call.key.shape[-3:-2] for call in calls}) > 1:  # only some steps repeat the keys that heads share
        calls = [replace(call, key=share(call.key, call.query)) for call in calls]
    given = beams is not None
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
    # A search may go on after the texts that are followed have ended.
    beams = beams[:, : int((beams >= 0).any(0).sum())]
    steps: list[_Step] = []
    for number, (call, came_from, group) in enumerate(zip(calls, beams.unbind(1), groups, strict=False)):
        step = _Step(call, came_from, group)
        step.check(name, number)
        steps.append(step.after(steps[-1], name, number, given) if steps else step)
    return steps


@dataclass(frozen=True, eq=False)
class _Step:
    call: Call
    came_from: Int[Tensor, " texts"]
    group: int  # rows that are queries of one entry
    first_query: int = 0  # its place among the queries of the text
    first_key: int = 0  # and the place of its first key
    known: int = 0  # of its keys were there before

    @property
    def queries(self) -> int:
        """How many queries of each text it adds."""
        return self.call.extent.queries // self.group

    @property
    def keys(self) -> int:
        """How many keys it asks."""
        return self.call.extent.keys

    def check(self, name: str, number: int) -> None:
        """Refuse a row that the step does not have."""
        rows, last = self.call.query.shape[0] * self.group, int(self.came_from.max())
        if last >= rows:
            raise RegardError(
                f"beams name row {last} at step {number}, but {name} had {rows} rows there: these are not the beams "
                "of this decode"
            )

    def after(self, before: "_Step", name: str, number: int, beams: bool) -> "_Step":
        """The same, placed behind the step before it. Refused unless its keys continue those of that step."""
        alive = (before.came_from >= 0) & (self.came_from >= 0)
        old, new = before.keys_of(alive), self.keys_of(alive)
        gone = before.keys + self.queries - self.keys  # from a cache that slides
        first_query = before.first_query + before.queries
        if _same(old, new):  # a memory
            if not beams:
                self._refuse_rows(before, name, number)
            return replace(self, first_query=first_query, first_key=before.first_key, known=self.keys)
        if 0 <= gone < before.keys and _same(old[..., gone:, :], new[..., : before.keys - gone, :]):
            first_key, known = before.first_key + gone, before.keys - gone
            return replace(self, first_query=first_query, first_key=first_key, known=known)
        raise RegardError(
            f"call {number + 1} of {name}, {self.queries} queries over {self.keys} keys, does not continue call {number}, "
            f"{before.queries} over {before.keys}: its keys are others, so these are not the steps of one text, or rows "
            f"of a beam changed places; take single calls of seen.calls({name!r}), or give the beams"
        )

    def _refuse_rows(self, before: "_Step", name: str, number: int) -> None:
        """Refuse more queries of one memory that cannot be the next positions of a text."""
        if 1 < self.queries == before.queries and _same(before.call.query, self.call.query):
            raise RegardError(
                f"call {number + 1} of {name} is call {number} again: take one of seen.calls({name!r})"
            )
        if self.queries > 1 == before.queries:
            raise RegardError(
                f"{name} asks one memory with 1 query and then with {self.queries}, as the rows of a beam do: give the "
                f"beams they came from, or decode without a beam"
            )

    def asked(self, here: Tensor) -> Tensor:
        """The queries of the call for some of the new positions."""
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

    def keys_of(self, wanted: Bool[Tensor, " texts"]) -> Tensor:
        """The keys of some texts, [texts, heads, keys, width]."""
        key = self.call.key
        if bool(wanted.all()) and self.group == 1 and self._every_row():
            return key
        return key[self.came_from[wanted] // self.group]

    def new_keys(self) -> Tensor:
        """The keys that this step adds to each text; zeros for a text that has ended."""
        key = self.call.key[..., self.known :, :]
        if key.ndim < 4 or (self._every_row() and self.group == 1):
            return key
        picked = key[self.came_from.clamp_min(0) // self.group]
        return torch.where(self.alive(), picked, torch.zeros((), dtype=key.dtype, device=key.device))

    def _every_row(self) -> bool:
        """Whether the texts are the rows of the batch, in their order."""
        rows = torch.arange(self.call.query.shape[0], device=self.came_from.device)
        return torch.equal(self.came_from, rows)

    def alive(self) -> Tensor:
        """[texts, 1, 1, 1]: whether a text still goes on."""
        return (self.came_from >= 0)[:, None, None, None]


def _groups(calls: Sequence[Call], beams: Beams) -> list[int]:
    """How many rows of each step are queries of one entry of its batch."""
    groups = [
        after.extent.queries if after.extent.keys == before.extent.keys else 1
        for before, after in pairwise(calls)
    ]
    first, rows = calls[0].query, int(beams[:, 0].max()) + 1
    # Several queries of the first step are rows if there are more rows than entries or the next has as many; else a prompt.
    grouped = rows > first.shape[0] or groups[:1] == [first.shape[-2]]
    return [first.shape[-2] if grouped else 1, *groups]


def _same(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors hold the same numbers; NaN equals NaN here."""
    if a.shape != b.shape:
        return False
    if a.data_ptr() == b.data_ptr() and a.stride() == b.stride():
        return True
    return bool(((a == b) | (a.isnan() & b.isnan())).all())


@dataclass(frozen=True, eq=False)
class _StepMask(Mask):
    steps: tuple[_Step, ...]

    def block(self, rows: Tensor, columns: Tensor, extent: Extent) -> Tensor:
        parts = []
        for step, here in _split(self.steps, rows):
            own, place = step.call.extent, columns - step.first_key
            inside = (place >= 0) & (place < own.keys)
            allowed = inside.expand(1, 1, len(here), len(columns))
            if step.call.mask is not None:
                block = step.call.mask.block(step.asked(here), place.clamp(0, own.keys - 1), own)
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
            place = (columns - step.first_key).clamp(0, own.keys - 1)
            block = step.call.bias.block(step.asked(here), place, own)
            parts.append(step.rows_of(block.reshape(*([1] * (4 - block.ndim)), *block.shape)))
        return _stack(parts, len(rows), len(columns), rows.device)


def _split(steps: Sequence[_Step], rows: Tensor) -> list[tuple[_Step, Tensor]]:
    """The steps that some ascending rows fall into, each with those rows counted from its own first."""
    found = []
    for step in steps:
        here = rows[(rows >= step.first_query) & (rows < step.first_query + step.queries)]
        if len(here):
            found.append((step, here - step.first_query))
    return found


def _stack(parts: list[Tensor], rows: int, columns: int, device: torch.device) -> Tensor:
    if not parts:
        return torch.zeros(1, 1, rows, columns, dtype=torch.bool, device=device)
    batch = [max(part.shape[axis] for part in parts) for axis in (0, 1)]
    return torch.cat([part.expand(*batch, *part.shape[-2:]) for part in parts], dim=-2)
