"""Tiles: the map of a head at any level, computed when it is looked at.

What is cheap is exact at once. What is not is first answered from some queries of each band, every one of them exactly,
and then by one pass over the whole head, which is kept.
"""

from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.call import Call
from regard.attention.reach import pad_axes
from regard.errors import RegardError
from regard.sight.evidence import ask
from regard.sight.explorer.full_map import CHEAP, Blocking, Cells, FullMap, cells, cost
from regard.sight.explorer.payload import mark_nan
from regard.sight.selection import part

TILE = 256
_TRIES = 3  # positions of a cell, along each axis, at which the mask is asked


@dataclass(frozen=True, kw_only=True)
class Place:
    """Which tile of a map."""

    down: int
    across: int
    row: int
    column: int

    def queries(self, call: Call) -> range:
        """The queries it covers."""
        return _covered("row", self.row, self.down, call.extent.queries)

    def keys(self, call: Call) -> range:
        """The keys it covers."""
        return _covered("column", self.column, self.across, call.extent.keys)


@dataclass(frozen=True, kw_only=True, eq=False)
class MapTile:
    """The cells of a tile; NaN where no pair may look, +∞ where a weight is no number."""

    mass: Float[Tensor, "h w"]
    peak: Float[Tensor, "h w"]
    sampled: int | None = None  # queries looked at of each band, where not all were

    @property
    def approximate(self) -> bool:
        """Whether some queries were not looked at."""
        return self.sampled is not None


def tile(call: Call, place: Place, whole: FullMap | None) -> MapTile:
    """A tile, exact: from the kept whole where its levels are high enough, otherwise from its own queries and keys."""
    queries, keys = place.queries(call), place.keys(call)
    if whole is not None and min(place.down, place.across) >= whole.cells.down:
        found = _cut(whole.cells, queries, keys).coarser(place.down, place.across)
    else:
        found = _computed(call, place, queries, keys, whole)
    return _finished(call, place, found, _heights(queries, place.down, found.sums))


def sampled_tile(call: Call, place: Place) -> MapTile:
    """A tile from as many queries of each band as can be looked at quickly."""
    queries, keys = place.queries(call), place.keys(call)
    bands = cells(len(queries), place.down)
    some = max(1, CHEAP // max(1, 2 * cost(call, bands)))
    rows = sample(queries, 1 << place.down, some).to(call.extent.device)
    if len(rows) == len(queries):
        return tile(call, place, None)
    asked = part(call, rows)
    blocks = Blocking(asked, 0, place.across)
    ask(asked, blocks)
    each = blocks.answer()
    columns = slice(keys.start >> place.across, cells(keys.stop, place.across))
    band = (rows - queries.start) >> place.down
    size = (len(each.sums), bands, columns.stop - columns.start)
    sums = each.sums.new_zeros(size).index_add_(1, band, each.sums[..., columns])
    where = band[None, :, None].expand(size[0], -1, size[2])
    peak = each.peak.new_zeros(size).scatter_reduce_(1, where, each.peak[..., columns], "amax")
    found = Cells(sums=sums, peak=peak, down=place.down, across=place.across)
    counts = torch.bincount(band, minlength=bands)
    return _finished(call, place, found, counts.to(sums), sampled=int(counts.max()))


def sample(queries: range, block: int, some: int) -> Tensor:
    """At most `some` queries of each block of them, evenly spread; fewer where a block has fewer."""
    if some >= block:
        return torch.arange(queries.start, queries.stop)
    offsets = ((torch.arange(some) + 0.5) * block / some).long()
    starts = torch.arange(queries.start, queries.stop, block)
    last = (starts + block).clamp_max(queries.stop) - 1
    rows = torch.minimum(starts[:, None] + offsets, last[:, None])
    return torch.unique(rows)


def allowed(call: Call, rows: Tensor, columns: Tensor) -> Bool[Tensor, "n r c"] | None:
    """Which of these pairs may look, for each head; None for all of them."""
    extent, axes = call.extent, call.query.ndim - 2
    found = None
    if call.mask is not None:
        found = pad_axes(call.mask.block(rows, columns, extent), axes, tail=2)
    if call.bias is not None:
        bias = call.bias.block(rows, columns, extent)
        open_ = bias.reshape(*([1] * (axes + 2 - bias.ndim)), *bias.shape) > -torch.inf
        found = open_ if found is None else found & open_
    if found is None:
        return None
    return found.expand(*call.query.shape[:-2], len(rows), len(columns)).reshape(-1, len(rows), len(columns))


def _computed(call: Call, place: Place, queries: range, keys: range, whole: FullMap | None) -> Cells:
    if whole is None:
        asked = part(call, queries)
        blocks = Blocking(asked, place.down, place.across)
        ask(asked, blocks)
        return _cut(blocks.answer(), range(len(queries)), keys)
    asked = part(call, queries, keys)
    lse = whole.summary.logsumexp[..., queries.start : queries.stop]
    blocks = Blocking(asked, place.down, place.across, lse)
    ask(asked, blocks)
    return blocks.answer()


def _cut(kept: Cells, queries: range, keys: range) -> Cells:
    rows = slice(queries.start >> kept.down, cells(queries.stop, kept.down))
    columns = slice(keys.start >> kept.across, cells(keys.stop, kept.across))
    return Cells(
        sums=kept.sums[:, rows, columns],
        peak=kept.peak[:, rows, columns],
        down=kept.down,
        across=kept.across,
    )


def _heights(queries: range, level: int, like: Tensor) -> Tensor:
    starts = torch.arange(queries.start, queries.stop, 1 << level)
    return ((starts + (1 << level)).clamp_max(queries.stop) - starts).to(like)


def _finished(call: Call, place: Place, found: Cells, heights: Tensor, sampled: int | None = None) -> MapTile:
    """Masses and peaks over all heads, hidden cells marked."""
    mass = mark_nan((found.sums / heights[:, None]).mean(0))
    peak = mark_nan(found.peak.amax(0))
    hidden = _hidden(call, place, mass)
    if hidden is not None:
        mass, peak = mass.masked_fill(hidden, torch.nan), peak.masked_fill(hidden, torch.nan)
    return MapTile(mass=mass, peak=peak, sampled=sampled)


def _hidden(call: Call, place: Place, mass: Tensor) -> Tensor | None:
    """Cells that got nothing and whose corners and middles are masked. Single pairs are exact."""
    if (call.mask is None and call.bias is None) or bool((mass > 0).all()):
        return None
    rows, high = _tried(place.queries(call), place.down)
    columns, wide = _tried(place.keys(call), place.across)
    open_ = allowed(call, rows.to(mass.device), columns.to(mass.device))
    if open_ is None:
        return None
    seen = rearrange(open_.any(0), "(h high) (w wide) -> h w (high wide)", high=high, wide=wide).any(-1)
    return ~seen & (mass == 0)


def _tried(positions: range, level: int) -> tuple[Tensor, int]:
    tries = min(_TRIES, 1 << level)
    offsets = torch.linspace(0, (1 << level) - 1, tries).long()
    starts = torch.arange(positions.start, positions.stop, 1 << level)
    return (starts[:, None] + offsets).clamp_max(positions.stop - 1).flatten(), tries


def _covered(what: str, number: int, level: int, positions: int) -> range:
    last = max(positions - 1, 0).bit_length()  # at this level one cell covers everything
    if not 0 <= level <= last:
        raise RegardError(f"{what} at level {level}: {positions} positions have levels 0 to {last}")
    wide = TILE << level
    if not 0 <= number * wide < max(positions, 1):
        raise RegardError(
            f"{what} {number} at level {level}: there are {positions} positions, {cells(positions, level)} cells"
        )
    return range(number * wide, min((number + 1) * wide, positions))
