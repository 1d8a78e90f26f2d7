"""PageAnswers to the questions of the page, as packs. The server only speaks HTTP around them."""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.attention.call import Call
from regard.errors import RegardError
from regard.sight.evidence import rectangle, summarise
from regard.sight.explorer.exhibit import Picture
from regard.sight.explorer.hall import Hall
from regard.sight.explorer.packs import Stored, halves, marked, pack, singles, small
from regard.sight.explorer.parts import part
from regard.sight.explorer.passes import Head, Passes
from regard.sight.explorer.small_maps import small_maps
from regard.sight.explorer.tiles import CHEAP, TILE, MapTile, Place, allowed, cost, sample, sampled_tile, tile
from regard.sight.explorer.whole import kept_level
from regard.sight.selection import positions

_FEW = 1024  # queries of a first look at a whole axis


class PageAnswers:
    """What the page may ask of the exhibits of a hall."""

    def __init__(self, hall: Hall) -> None:
        self.hall, self.passes = hall, Passes()

    def tile(
        self, exhibit: int, layer: int, entry: int, heads: Sequence[int], place: Place, *, exact: bool
    ) -> bytes:
        """One tile of the map of a head, or of several averaged."""
        found = [
            self._tile(head, call, place, exact) for head, call in self._calls(exhibit, layer, entry, heads)
        ]
        mass = torch.stack([one.mass for one in found]).nanmean(0)  # a pair may be hidden from one head only
        peak = torch.stack([one.peak.masked_fill(one.peak.isnan(), -1.0) for one in found]).amax(0)
        some = [one.sampled for one in found if one.sampled is not None]
        arrays = {"mass": halves(mass), "peak": halves(peak.masked_fill(peak < 0, torch.nan))}
        return pack(arrays, approximate=bool(some), **({"sampled": min(some)} if some else {}))

    def margins(self, exhibit: int, layer: int, entry: int, heads: Sequence[int], *, exact: bool) -> bytes:
        """How widely each query looks and what each key receives, averaged over heads."""
        entropy, received, approximate = [], [], False
        for head, call in self._calls(exhibit, layer, entry, heads):
            if exact or self._cheap(head, call):
                summary = self.passes.whole(head, call).summary
                entropy.append(marked(summary.entropy.reshape(-1)))
                received.append(marked(summary.received.reshape(-1)))
                continue
            rows = _few(call)
            summary, approximate = summarise(part(call, rows)), True
            entropy.append(_among(call, rows, marked(summary.entropy)))
            received.append(marked(summary.received.reshape(-1)) * (call.extent.queries / len(rows)))
        arrays = {
            "entropy": singles(torch.stack(entropy).mean(0)),
            "received": singles(torch.stack(received).mean(0)),
        }
        return pack(arrays, approximate=approximate)

    def row(self, exhibit: int, layer: int, entry: int, query: int) -> bytes:
        """What one query looks at, in every head."""
        call = self.hall.panel(exhibit, layer, entry).call(entry)
        row = torch.tensor(positions(query, call.extent.queries, "query"), device=call.extent.device)
        weights = marked(rectangle(call, row, call.extent.columns).reshape(-1, call.extent.keys))
        open_ = allowed(call, row, call.extent.columns)
        if open_ is not None:
            weights = weights.masked_fill(~open_[:, 0], torch.nan)
        return pack({"weights": halves(weights)}, approximate=False)

    def column(
        self, exhibit: int, layer: int, entry: int, key: int, heads: Sequence[int], *, exact: bool
    ) -> bytes:
        """Who looks at one key, in some heads: exp(log-sum-exp over that key − log-sum-exp over all)."""
        found, approximate = [], False
        for head, call in self._calls(exhibit, layer, entry, heads):
            chosen = positions(key, call.extent.keys, "key")[0]
            only = range(chosen, chosen + 1)
            if exact or self._cheap(head, call):
                total = self.passes.whole(head, call).summary.logsumexp
                found.append(_share(summarise(part(call, None, only)).logsumexp, total))
                continue
            rows, approximate = _few(call), True
            total = summarise(part(call, rows)).logsumexp
            found.append(_among(call, rows, _share(summarise(part(call, rows, only)).logsumexp, total)))
        return pack({"weights": halves(torch.stack(found))}, approximate=approximate)

    def atlas(self, exhibit: int, layer: int, entry: int, size: int) -> bytes:
        """All heads of a layer as small maps, with their measures."""
        if not 1 <= size <= TILE:
            raise RegardError(f"small maps of {size} cells: ask for 1 to {TILE}")
        panel = self.hall.panel(exhibit, layer, entry)
        found = small_maps(panel.call(entry), size, cross=panel.cross)
        arrays: dict[str, Stored] = {"maps": halves(found.maps)}
        arrays |= {name: singles(values) for name, values in found.measures.items()}
        return pack(arrays, approximate=found.approximate, measures=list(found.measures))

    def importance(self, exhibit: int, layer: int) -> bytes:
        """How much the answer needs each head of a layer."""
        return pack({"importance": singles(marked(self.hall.importance(exhibit, layer)))})

    def media(self, exhibit: int, side: int, entry: int) -> bytes:
        """The picture of a side."""
        sides = self.hall.exhibit(exhibit).sides
        chosen = sides[positions(side, len(sides), "side")[0]]
        if not isinstance(chosen, Picture):
            raise RegardError(f"side {side} is {chosen.name}, which is no picture")
        return pack({"pixels": small(chosen.pixels[positions(entry, len(chosen.pixels), "entry")[0]])})

    def _calls(self, exhibit: int, layer: int, entry: int, heads: Sequence[int]) -> list[tuple[Head, Call]]:
        panel = self.hall.panel(exhibit, layer, entry)
        chosen = positions(heads or None, panel.heads, "head")
        return [(Head(exhibit, layer, entry, head), panel.call(entry, [head])) for head in chosen]

    def _cheap(self, head: Head, call: Call) -> bool:
        return cost(call) <= CHEAP or self.passes.known(head) is not None

    def _tile(self, head: Head, call: Call, place: Place, exact: bool) -> MapTile:
        if self._cheap(head, call):
            return tile(call, place, self.passes.whole(head, call))
        if cost(call, len(place.queries(call))) <= CHEAP:
            return tile(call, place, None)
        if not exact:
            return sampled_tile(call, place)
        kept = min(place.down, place.across) >= kept_level(call.extent.queries, call.extent.keys)
        return tile(call, place, self.passes.whole(head, call) if kept else None)


def _few(call: Call) -> Tensor:
    """Queries enough for a first look, evenly spread."""
    queries = call.extent.queries
    some = min(queries, _FEW, max(1, CHEAP // max(1, 2 * cost(call, 1))))
    return sample(range(queries), -(-queries // some), 1).to(call.extent.device)


def _among(call: Call, rows: Tensor, values: Tensor) -> Tensor:
    """Values of some queries among all; NaN for the others."""
    blank = torch.full((call.extent.queries,), torch.nan, dtype=values.dtype, device=values.device)
    return blank.index_copy_(0, rows, values.reshape(-1))


def _share(some: Tensor, total: Tensor) -> Tensor:
    """The weights of some keys together; NaN where nothing of them may be looked at, +∞ where they are no numbers."""
    some, total = some.reshape(-1), total.reshape(-1)
    weights = torch.where(
        some.isnan(), 0.0, (some - total).exp()
    )  # a score of −∞ is no sum, and a weight of 0
    weights = weights.masked_fill(total.isnan(), torch.inf)
    return weights.masked_fill(some == -torch.inf, torch.nan)
