"""The weights of a call, a strip of queries at a time, so that they are never all in memory.

A strip holds whole rows of the softmax, so everything computed from it is exact. Keys that the band of a causal or
windowed mask hides from every query of a strip are left out of it.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.batch_axes import pad_axes
from regard.attention.call import Call
from regard.attention.kernels.additive import additive
from regard.attention.scores import Additive, share

CAPACITY = 1 << 20  # numbers in a strip: four megabytes of float32, enough rows for a fast product
GPU_CAPACITY = 1 << 24  # smaller strips would be done before the next is launched


@dataclass(frozen=True, kw_only=True, eq=False)
class Strip:
    """Some rows of the weights of some entries of the batch: parts / total.

    Valid until the next strip, which is written into the same memory.
    """

    entries: slice  # of the batch axes, flattened
    rows: slice
    columns: slice
    below: Float[Tensor, "n r c"]  # score − the largest score of its row
    parts: Float[Tensor, "n r c"]  # exp(below)
    total: Float[Tensor, "n r"]  # Σ parts; 0 if the query may look at nothing, NaN if a score is NaN or +∞
    largest: Float[Tensor, "n r"]

    @property
    def share(self) -> Float[Tensor, "n r"]:
        """1 / total, or 0 when the query may look at nothing or its parts are NaN."""
        return torch.where(self.total > 0, self.total.reciprocal(), 0.0)


def strips(call: Call, rows: slice | None = None, *, capacity: int | None = None) -> Iterator[Strip]:
    """The strips of a call from the first of its rows to the last, each of about `capacity` numbers."""
    if capacity is None:
        capacity = GPU_CAPACITY if call.query.is_cuda else CAPACITY
    extent, batch = call.extent, call.query.shape[:-2]
    entries, keys = batch.numel(), extent.keys
    rows = slice(0, extent.queries) if rows is None else rows
    with torch.no_grad():  # not around the whole: the caller's grad mode stays as it is between strips
        query, key, vector = _mapped(call)
    band = (None, None) if call.mask is None else call.mask.band(extent)
    height = max(1, min(rows.stop - rows.start, capacity // max(keys, 1)))
    together = max(1, min(entries, capacity // max(height * keys, 1)))
    memory = [query.new_empty(together * height * keys) for _ in range(2)]
    for start in range(rows.start, rows.stop, height):
        run = slice(start, min(start + height, rows.stop))
        columns = _columns(run, band, keys)
        hidden, added = _hidden_and_added(call, run, columns)
        for first in range(0, entries, together):
            some = slice(first, min(first + together, entries))
            shape = (some.stop - some.start, run.stop - run.start, columns.stop - columns.start)
            below, parts = (part[: shape[0] * shape[1] * shape[2]].view(shape) for part in memory)
            if vector is None:
                torch.bmm(query[some, run], key[some, columns].mT, out=below)
            else:
                below.copy_(additive(query[some, run], key[some, columns], vector[some]) * call.scale)
            if added is not None:
                below += _of_entries(added, batch, some)
            unseen = None if hidden is None else _of_entries(hidden, batch, some)
            yield _strip(below, parts, unseen, entries=some, rows=run, columns=columns)


def _mapped(call: Call) -> tuple[Tensor, Tensor, Tensor | None]:
    """Query (multiplied by the scale) and key as the score maps them, batch axes flattened; v if additive."""
    wide = torch.promote_types(call.query.dtype, torch.float32)
    query = call.score.map_query(call.query.detach().to(wide))
    key = share(call.score.map_key(call.key.detach().to(wide)), query)
    vector = None
    if isinstance(call.score, Additive):
        spread = call.score.vector.detach().to(wide).expand(*query.shape[:-2], -1)
        vector = spread.reshape(-1, spread.shape[-1])
    else:
        query = query * (call.scale * call.score.factor(call.query.shape[-1]))
    entries = query.shape[:-2].numel()
    return (
        query.reshape(entries, *query.shape[-2:]),
        key.reshape(entries, *key.shape[-2:]).contiguous(),
        vector,
    )


def _strip(
    below: Tensor, parts: Tensor, hidden: Tensor | None, *, entries: slice, rows: slice, columns: slice
) -> Strip:
    if below.shape[-1] == 0:
        total = largest = below.new_zeros(below.shape[:-1])
    else:
        if hidden is not None:
            below.masked_fill_(hidden, torch.finfo(below.dtype).min)  # finite, so that 0 · score is 0
        largest = below.amax(-1)
        # Not exp: on a CPU exp2 is three times as fast, and exp, which comes from MKL as the product above does, makes
        # both several times slower for seconds on end when the two take turns on two threads.
        torch.mul(below.sub_(largest[..., None]), 1 / math.log(2), out=parts).exp2_()
        if hidden is not None:
            parts.masked_fill_(hidden, 0.0)
        total = parts.sum(-1)
        broken = total.isnan()
        if bool(broken.any()):  # a row whose sum is NaN has NaN weights
            parts.masked_fill_(broken[..., None], torch.nan)
            if hidden is not None:
                parts.masked_fill_(hidden, 0.0)
    return Strip(
        entries=entries, rows=rows, columns=columns, below=below, parts=parts, total=total, largest=largest
    )


def _columns(rows: slice, band: tuple[int | None, int | None], keys: int) -> slice:
    """The keys that a band allows to any of some queries."""
    low, high = band
    first = 0 if low is None else min(max(rows.start + low, 0), keys)
    last = keys if high is None else min(max(rows.stop + high, first), keys)
    return slice(first, last)


def _hidden_and_added(call: Call, rows: slice, columns: slice) -> tuple[Tensor | None, Tensor | None]:
    """Which pairs may not look, by mask or by a bias of −∞, and what is added to the scores of the others."""
    extent, axes = call.extent, call.query.ndim - 2
    hidden = added = None
    if call.mask is not None:
        hidden = ~pad_axes(call.mask.block(extent.rows[rows], extent.columns[columns], extent), axes, tail=2)
    if call.bias is not None:
        wide = torch.promote_types(call.query.dtype, torch.float32)
        bias = call.bias.block(extent.rows[rows], extent.columns[columns], extent).detach().to(wide)
        bias = bias.reshape(*([1] * (axes + 2 - bias.ndim)), *bias.shape)  # aligned at its last axes
        forbidden = bias == -torch.inf
        hidden = forbidden if hidden is None else hidden | forbidden
        added = bias.masked_fill(forbidden, 0.0)
    return hidden, added


def _of_entries(matrix: Tensor, batch: torch.Size, some: slice) -> Tensor:
    """The matrices of some flattened batch entries, from one that may be broadcast over the batch."""
    if matrix.shape[:-2].numel() == 1:
        return matrix.reshape(1, *matrix.shape[-2:])
    index = torch.arange(some.start, some.stop, device=matrix.device)
    full = matrix.expand(*batch, *matrix.shape[-2:])
    return full[torch.unravel_index(index, batch)] if batch else full


@dataclass(frozen=True, kw_only=True, eq=False)
class HeadStrip:
    """Some rows of the weights of every head."""

    entry: int  # of the batch axes before the heads, flattened
    rows: slice
    columns: slice
    weights: Float[Tensor, "h r c"]
    looking: Bool[Tensor, "h r"]  # False where a query may look at nothing


def heads_together(call: Call, *, capacity: int = CAPACITY) -> Iterator[HeadStrip]:
    """The weights of each batch entry, all heads in one tensor, about `capacity` numbers at a time.

    A call without batch axes has one head.
    """
    count = call.query.shape[-3] if call.query.ndim > 2 else 1
    weights: list[Tensor] = []
    looking: list[Tensor] = []
    for strip in strips(call, capacity=max(1, capacity // max(count, 1))):
        some = strip.parts * strip.share[..., None]
        # Strips hold entries in order, so the heads of one are consecutive, but a strip may hold a part of them.
        for entry, (each, total) in enumerate(zip(some, strip.total, strict=True), strip.entries.start):
            weights.append(each)
            looking.append(total > 0)
            if len(weights) == count:
                yield HeadStrip(
                    entry=entry // count,
                    rows=strip.rows,
                    columns=strip.columns,
                    weights=torch.stack(weights),
                    looking=torch.stack(looking),
                )
                weights, looking = [], []
