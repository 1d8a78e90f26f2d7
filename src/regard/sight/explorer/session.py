"""The examples that are open in the explorer, and the answers to what the page asks about them.

Answers are bytes (`payload.py`), which the server sends. A costly answer is first computed from some of the queries, and
is then approximate.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard import __version__
from regard.attention.call import Call
from regard.errors import RegardError
from regard.sight.evidence import rectangle, summarise
from regard.sight.explorer.example import Change, Example, Panel, Picture, Subject, Touched
from regard.sight.explorer.full_map import CHEAP, FullMapCache, Head, cost, kept_level
from regard.sight.explorer.payload import PayloadArray, halves, mark_nan, pack, singles, small
from regard.sight.explorer.tiles import TILE, MapTile, Place, allowed, sample, sampled_tile, small_maps, tile
from regard.sight.selection import part, positions

TOUCHED = 8  # changed examples that stay open
_FEW = 1024  # queries of a first look at a whole axis


class GoneError(RegardError):
    """An example was open once, and is no longer."""


class Session:
    """Examples by number. Those it begins with stay; of changed ones only the last few do."""

    def __init__(self, examples: Sequence[Example], *, title: str = "regard") -> None:
        if not examples:
            raise RegardError("there is nothing to explore: no exhibit was given")
        self.title, self.full_maps = title, FullMapCache()
        self._open = dict(enumerate(examples))
        self._stay, self._next = len(examples), len(examples)
        self._lock, self._model = threading.Lock(), threading.Lock()

    def example(self, number: int) -> Example:
        """An open example."""
        with self._lock:
            found = self._open.get(number)
        if found is None and 0 <= number < self._next:
            raise GoneError(f"exhibit {number} was let go: only the last {TOUCHED} changed ones are kept")
        if found is None:
            raise RegardError(f"exhibit {number}, but there are only {self._next}")
        return found

    def manifest(self) -> dict[str, Any]:
        """What the page asks first."""
        with self._lock:
            shown = sorted(self._open.items())
        return {
            "version": 1,
            "title": self.title,
            "library": __version__,
            "mode": "served",
            "tile": TILE,
            "exhibits": [example.manifest(number) for number, example in shown],
        }

    def touch(self, example: int, inputs: Mapping[str, str], changes: Sequence[Change]) -> dict[str, Any]:
        """Run a model again, its input or its attention changed: the manifest of the example that this makes."""
        _, subject = self._subject(example)
        unknown = [name for name in inputs if name not in subject.inputs]
        if unknown:
            raise RegardError(
                f"input {unknown[0]!r} cannot be changed: {', '.join(subject.inputs) or 'none'} can"
            )
        with self._model:
            made = subject.look(inputs, changes)
        made = replace(made, touched=Touched(of=example, inputs=dict(inputs), changes=tuple(changes)))
        with self._lock:
            number = self._next
            self._open[number], self._next = made, number + 1
            for old in sorted(self._open)[self._stay : -TOUCHED]:
                del self._open[old]
                self.full_maps.forget(old)
        return made.manifest(number)

    def importance(self, example: int, layer: int) -> Float[Tensor, " heads"]:
        """How much the first answer needs each head of a layer."""
        panel = self._panel(example, layer, 0)
        shown, subject = self._subject(example)
        with self._model:
            return subject.importance(shown, panel)

    def tile(
        self, example: int, layer: int, entry: int, heads: Sequence[int], place: Place, *, exact: bool
    ) -> bytes:
        """One tile of the map of a head, or of several averaged."""
        found = [
            self._tile(head, call, place, exact) for head, call in self._calls(example, layer, entry, heads)
        ]
        mass = torch.stack([one.mass for one in found]).nanmean(0)  # a pair may be hidden from one head only
        peak = torch.stack([one.peak.masked_fill(one.peak.isnan(), -1.0) for one in found]).amax(0)
        some = [one.sampled for one in found if one.sampled is not None]
        arrays = {"mass": halves(mass), "peak": halves(peak.masked_fill(peak < 0, torch.nan))}
        return pack(arrays, approximate=bool(some), **({"sampled": min(some)} if some else {}))

    def margins(self, example: int, layer: int, entry: int, heads: Sequence[int], *, exact: bool) -> bytes:
        """How widely each query looks and what each key receives, averaged over heads."""
        entropy, received, approximate = [], [], False
        for head, call in self._calls(example, layer, entry, heads):
            if exact or self._cheap(head, call):
                summary = self.full_maps.get(head, call).summary
                entropy.append(mark_nan(summary.entropy.reshape(-1)))
                received.append(mark_nan(summary.received.reshape(-1)))
                continue
            rows = _few(call)
            summary, approximate = summarise(part(call, rows)), True
            entropy.append(_among(call, rows, mark_nan(summary.entropy)))
            received.append(mark_nan(summary.received.reshape(-1)) * (call.extent.queries / len(rows)))
        arrays = {
            "entropy": singles(torch.stack(entropy).mean(0)),
            "received": singles(torch.stack(received).mean(0)),
        }
        return pack(arrays, approximate=approximate)

    def row(self, example: int, layer: int, entry: int, query: int) -> bytes:
        """What one query looks at, in every head."""
        call = self._panel(example, layer, entry).call(entry)
        row = torch.tensor(positions(query, call.extent.queries, "query"), device=call.extent.device)
        weights = mark_nan(rectangle(call, row, call.extent.columns).reshape(-1, call.extent.keys))
        open_ = allowed(call, row, call.extent.columns)
        if open_ is not None:
            weights = weights.masked_fill(~open_[:, 0], torch.nan)
        return pack({"weights": halves(weights)}, approximate=False)

    def column(
        self, example: int, layer: int, entry: int, key: int, heads: Sequence[int], *, exact: bool
    ) -> bytes:
        """The weight of every query on one key, in some heads: exp(score − log-sum-exp over all keys)."""
        found, approximate = [], False
        for head, call in self._calls(example, layer, entry, heads):
            chosen = positions(key, call.extent.keys, "key")[0]
            only = range(chosen, chosen + 1)
            if exact or self._cheap(head, call):
                total = self.full_maps.get(head, call).summary.logsumexp
                found.append(_share(summarise(part(call, None, only)).logsumexp, total))
                continue
            rows, approximate = _few(call), True
            total = summarise(part(call, rows)).logsumexp
            found.append(_among(call, rows, _share(summarise(part(call, rows, only)).logsumexp, total)))
        return pack({"weights": halves(torch.stack(found))}, approximate=approximate)

    def atlas(self, example: int, layer: int, entry: int, size: int) -> bytes:
        """All heads of a layer as small maps, with their measures."""
        if not 1 <= size <= TILE:
            raise RegardError(f"small maps of {size} cells: ask for 1 to {TILE}")
        panel = self._panel(example, layer, entry)
        found = small_maps(panel.call(entry), size, cross=panel.cross)
        arrays: dict[str, PayloadArray] = {"maps": halves(found.maps)}
        arrays |= {name: singles(values) for name, values in found.measures.items()}
        return pack(arrays, approximate=found.approximate, measures=list(found.measures))

    def media(self, example: int, side: int, entry: int) -> bytes:
        """The picture of a side."""
        sides = self.example(example).sides
        chosen = sides[positions(side, len(sides), "side")[0]]
        if not isinstance(chosen, Picture):
            raise RegardError(f"side {side} is {chosen.name}, which is no picture")
        return pack({"pixels": small(chosen.pixels[positions(entry, len(chosen.pixels), "entry")[0]])})

    def _panel(self, example: int, layer: int, entry: int) -> Panel:
        """A layer of an example, which has such an entry."""
        panels = self.example(example).panels
        panel = panels[positions(layer, len(panels), "layer")[0]]
        positions(entry, len(panel.sizes), "entry")
        return panel

    def _subject(self, example: int) -> tuple[Example, Subject]:
        shown = self.example(example)
        if shown.subject is None:
            raise RegardError(f"{shown.name}: there is no model to run again, only what was seen of it")
        return shown, shown.subject

    def _calls(self, example: int, layer: int, entry: int, heads: Sequence[int]) -> list[tuple[Head, Call]]:
        panel = self._panel(example, layer, entry)
        chosen = positions(heads or None, panel.heads, "head")
        return [(Head(example, layer, entry, head), panel.call(entry, [head])) for head in chosen]

    def _cheap(self, head: Head, call: Call) -> bool:
        return cost(call) <= CHEAP or self.full_maps.known(head) is not None

    def _tile(self, head: Head, call: Call, place: Place, exact: bool) -> MapTile:
        if self._cheap(head, call):
            return tile(call, place, self.full_maps.get(head, call))
        if cost(call, len(place.queries(call))) <= CHEAP:
            return tile(call, place, None)
        if not exact:
            return sampled_tile(call, place)
        kept = min(place.down, place.across) >= kept_level(call.extent.queries, call.extent.keys)
        return tile(call, place, self.full_maps.get(head, call) if kept else None)


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
    """The weights of some keys together; NaN where all of them are masked, +∞ where the weights are NaN."""
    some, total = some.reshape(-1), total.reshape(-1)
    # A score of −∞ has a log-sum-exp of NaN, and a weight of 0.
    weights = torch.where(some.isnan(), 0.0, (some - total).exp())
    return weights.masked_fill(total.isnan(), torch.inf).masked_fill(some == -torch.inf, torch.nan)
