"""Maps as the page shows them: tiles of one head at any level, and small maps of all heads of a layer.

What is cheap is exact at once. A costly tile is first computed from some queries of each band, every one of them exactly,
and then by one pass over the whole head, which is cached.
"""

from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.batch_axes import pad_axes
from regard.attention.call import Call
from regard.errors import RegardError
from regard.sight.evidence import Pooling, Question, Summing, ask
from regard.sight.explorer.full_map import CHEAP, Blocking, Cells, FullMap, cells, cost
from regard.sight.explorer.payload import mark_nan
from regard.sight.selection import part
from regard.sight.strips import Strip

TILE = 256
MEASURES = ("entropy", "distance", "sink", "previous", "peak")
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
    """The cells of a tile; NaN where every pair is masked, +∞ where a weight is NaN."""

    mass: Float[Tensor, "h w"]
    peak: Float[Tensor, "h w"]
    sampled: int | None = None  # queries looked at of each band, where not all were


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


def open_cells(
    call: Call, rows: Tensor, columns: Tensor, size: tuple[int, ...]
) -> Bool[Tensor, "n h w"] | None:
    """Which cells have a pair that may look among these positions, as many in each cell; None for all cells."""
    open_, (high, wide) = allowed(call, rows, columns), size
    if open_ is None:
        return None
    return rearrange(open_, "n (h i) (w j) -> n h w (i j)", h=high, w=wide).any(-1)


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
    rows, columns = _tried(place.queries(call), place.down), _tried(place.keys(call), place.across)
    open_ = open_cells(call, rows.to(mass.device), columns.to(mass.device), mass.shape)
    return None if open_ is None else ~open_.any(0) & (mass == 0)


def _tried(positions: range, level: int) -> Tensor:
    offsets = torch.linspace(0, (1 << level) - 1, min(_TRIES, 1 << level)).long()
    starts = torch.arange(positions.start, positions.stop, 1 << level)
    return (starts[:, None] + offsets).clamp_max(positions.stop - 1).flatten()


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


@dataclass(frozen=True, kw_only=True, eq=False)
class SmallMaps:
    """The maps of all heads, NaN in cells that are masked, and their measures by name, NaN where one does not apply.

    Where weights are NaN, both are +∞.
    """

    maps: Float[Tensor, "heads h w"]
    measures: dict[str, Float[Tensor, " heads"]]
    approximate: bool


class _Distances(Question[dict[str, Tensor]]):
    """How far queries at these positions look, and how much each looks at the position before its own."""

    def __init__(self, call: Call, positions: Tensor) -> None:
        entries = call.query.shape[:-2].numel()
        self.positions, self.columns = positions, call.extent.columns
        wide = torch.promote_types(call.query.dtype, torch.float32)
        self.distance, self.previous, self.looking = (
            torch.zeros(entries, dtype=wide, device=positions.device) for _ in range(3)
        )

    def take(self, strip: Strip) -> None:
        positions, columns = self.positions[strip.rows], self.columns[strip.columns]
        away = (positions[:, None] - columns).abs().to(strip.parts)
        before = (columns == positions[:, None] - 1).to(strip.parts)
        for total, chosen in ((self.distance, away), (self.previous, before)):
            total[strip.entries] += ((strip.parts * chosen).sum(-1) * strip.share).sum(-1)
        self.looking[strip.entries] += (strip.total > 0).sum(-1)

    def answer(self) -> dict[str, Tensor]:
        count = self.looking.clamp_min(1)
        return {"distance": self.distance / count, "previous": self.previous / count}


def small_maps(call: Call, size: int, *, cross: bool) -> SmallMaps:
    """Maps of at most size × size cells, exact where that is cheap, otherwise from one query of each row of cells."""
    queries, keys = call.extent.queries, call.extent.keys
    rows = torch.arange(queries, device=call.extent.device)
    if cost(call) > CHEAP and queries > size:
        rows = sample(range(queries), -(-queries // size), 1).to(rows.device)
    asked = call if len(rows) == queries else part(call, rows)
    pooling, summing = Pooling(asked, size, size), Summing(asked)
    distances = None if cross else _Distances(asked, rows + keys - queries)
    ask(asked, pooling, summing, *([] if distances is None else [distances]))
    summary, heads = summing.answer(), call.query.shape[:-2].numel()
    looking = (summary.logsumexp != -torch.inf).reshape(heads, -1)

    def mean(each: Tensor) -> Tensor:
        each = each.reshape(heads, -1)
        return torch.where(looking, each, 0.0).sum(-1) / looking.sum(-1).clamp_min(1)

    received = summary.received.reshape(heads, -1)
    measures = {
        "entropy": mean(summary.entropy),
        "sink": received[:, 0] / received.sum(-1).clamp_min(torch.finfo(received.dtype).tiny),
        "peak": mean(summary.peak),
        **({} if distances is None else distances.answer()),
    }
    unknown = received.new_full((heads,), torch.nan)
    return SmallMaps(
        maps=_hide(call, mark_nan(pooling.answer().reshape(heads, *pooling.cells.shape[-2:])), rows),
        measures={name: mark_nan(measures[name]) if name in measures else unknown for name in MEASURES},
        approximate=len(rows) < queries,
    )


def _hide(call: Call, maps: Float[Tensor, "heads h w"], rows: Tensor) -> Float[Tensor, "heads h w"]:
    """NaN in cells that got nothing and whose corners and middles are masked."""
    down, across = _tried_pooled(len(rows), maps.shape[-2]), _tried_pooled(call.extent.keys, maps.shape[-1])
    open_ = open_cells(call, rows[down], across.to(rows.device), maps.shape[-2:])
    return maps if open_ is None else maps.masked_fill(~open_ & (maps == 0), torch.nan)


def _tried_pooled(positions: int, cells: int) -> Tensor:
    """The first, middle and last position of each cell, as pooling deals them out."""
    edges = torch.tensor([-(-cell * positions // cells) for cell in range(cells + 1)])
    first, last = edges[:-1], edges[1:] - 1
    return torch.stack([first, (first + last) // 2, last], -1).flatten()
