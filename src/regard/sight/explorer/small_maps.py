"""All heads of a layer as small maps, and what kind of head each is, in numbers to sort them by."""

from dataclasses import dataclass

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from regard.attention.call import Call
from regard.sight.evidence import Pooling, Question, Summing, ask
from regard.sight.explorer.full_map import CHEAP, cost
from regard.sight.explorer.payload import mark_nan
from regard.sight.explorer.tiles import allowed, sample
from regard.sight.selection import part
from regard.sight.strips import Strip

MEASURES = ("entropy", "distance", "sink", "previous", "peak")


@dataclass(frozen=True, kw_only=True, eq=False)
class SmallMaps:
    """The maps of all heads, NaN where no pair of a cell may look, and their measures by name, NaN where there is none.

    Where weights are no numbers, both are +∞.
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
        maps=_hidden(call, mark_nan(pooling.answer().reshape(heads, *pooling.cells.shape[-2:])), rows),
        measures={name: mark_nan(measures[name]) if name in measures else unknown for name in MEASURES},
        approximate=len(rows) < queries,
    )


def _hidden(call: Call, maps: Float[Tensor, "heads h w"], rows: Tensor) -> Float[Tensor, "heads h w"]:
    """NaN in cells that got nothing and whose corners and middles are masked."""
    high, wide = maps.shape[-2:]
    down, across = _tried(len(rows), high), _tried(call.extent.keys, wide)
    open_ = allowed(call, rows[down], across.to(rows.device))
    if open_ is None:
        return maps
    seen = rearrange(open_, "n (h i) (w j) -> n h w (i j)", h=high, w=wide).any(-1)
    return maps.masked_fill(~seen & (maps == 0), torch.nan)


def _tried(positions: int, cells: int) -> Tensor:
    """The first, middle and last position of each cell, as pooling deals them out."""
    edges = torch.tensor([-(-cell * positions // cells) for cell in range(cells + 1)])
    first, last = edges[:-1], edges[1:] - 1
    return torch.stack([first, (first + last) // 2, last], -1).flatten()
