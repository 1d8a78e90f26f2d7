"""The full map of one head, pooled, with its summary: one pass, cached, from which every coarser level follows."""

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from regard.attention.call import Call
from regard.sight.evidence import Question, Summary, Summing, ask
from regard.sight.strips import CAPACITY, Strip

CELLS = 1 << 22  # most cells kept of a head: twice sixteen megabytes
CHEAP = 1 << 24  # weights computed without asking: a tenth of a second
_CACHED = 1 << 26  # numbers: a quarter of a gigabyte


def cost(call: Call, queries: int | None = None) -> int:
    """How many weights some queries have, counted as of vectors 64 wide."""
    extent, heads = call.extent, call.query.shape[:-2].numel()
    asked = extent.queries if queries is None else queries
    return heads * asked * extent.keys * max(call.query.shape[-1], 32) // 64


@dataclass(frozen=True, kw_only=True, eq=False)
class Cells:
    """Blocks of 2^down queries × 2^across keys: what they give, summed over both, and the largest weight."""

    sums: Float[Tensor, "n h w"]
    peak: Float[Tensor, "n h w"]
    down: int
    across: int

    def coarser(self, down: int, across: int) -> "Cells":
        """The same at higher levels."""
        high, wide = 1 << (down - self.down), 1 << (across - self.across)
        return Cells(
            sums=_blocks(self.sums, high, wide).sum((-3, -1)),
            peak=_blocks(self.peak, high, wide).amax((-3, -1)),
            down=down,
            across=across,
        )


class Blocking(Question[Cells]):
    """The blocks of a call. With the log-sum-exp over all keys, the call may be of some of them."""

    def __init__(self, call: Call, down: int, across: int, logsumexp: Tensor | None = None) -> None:
        self.down, self.across = down, across
        entries, extent = call.query.shape[:-2].numel(), call.extent
        size = (entries, cells(extent.queries, down), cells(extent.keys, across))
        wide = torch.promote_types(call.query.dtype, torch.float32)
        self.sums, self.peak = (torch.zeros(size, dtype=wide, device=extent.device) for _ in range(2))
        self.logsumexp = None if logsumexp is None else logsumexp.reshape(entries, -1)

    def take(self, strip: Strip) -> None:
        """Queries are pooled first, along whole rows of memory; then the few rows that are left, along the keys."""
        weights = self._weights(strip)
        if not weights.numel():
            return
        column, start = strip.columns.start >> self.across, strip.rows.start
        weights = _filled(weights, -1, strip.columns.start - (column << self.across), 1 << self.across)
        bands = range(start >> self.down, cells(strip.rows.stop, self.down))
        columns = slice(column, column + (weights.shape[-1] >> self.across))
        if len(bands) > 2:
            weights = _filled(weights, -2, start - (bands[0] << self.down), 1 << self.down)
            rows = rearrange(weights, "n (band high) k -> n band high k", high=1 << self.down)
            self._add(strip, slice(bands.start, bands.stop), columns, rows)
            return
        for band in bands:  # taller than the strip, which would be filled up many times over
            rows = weights[:, max((band << self.down) - start, 0) : ((band + 1) << self.down) - start]
            self._add(strip, slice(band, band + 1), columns, rows[:, None])

    def _add(self, strip: Strip, bands: slice, columns: slice, rows: Float[Tensor, "n band high k"]) -> None:
        place = (strip.entries, bands, columns)
        self.sums[place] += _columns(rows.sum(-2), self.across).sum(-1)
        largest = _columns(rows.amax(-2), self.across).amax(-1)
        self.peak[place] = torch.maximum(self.peak[place], largest)  # a band may go on in the next strip

    def _weights(self, strip: Strip) -> Tensor:
        if self.logsumexp is None:
            return strip.parts * strip.share[..., None]
        total = self.logsumexp[strip.entries, strip.rows]
        looking, broken = strip.total > 0, total.isnan()
        share = torch.where(looking & total.isfinite(), (strip.largest - total).exp(), 0.0)
        weights = strip.parts * share[..., None]
        if bool(broken.any()):  # NaN over all keys, whatever it is over some; masked pairs stay masked
            open_ = strip.below > torch.finfo(strip.below.dtype).min / 2
            weights.masked_fill_((broken & looking)[..., None] & open_, torch.nan)
        return weights

    def answer(self) -> Cells:
        """Sums and peaks."""
        return Cells(sums=self.sums, peak=self.peak, down=self.down, across=self.across)


@dataclass(frozen=True, kw_only=True, eq=False)
class FullMap:
    """Everything about one head that costs a pass."""

    cells: Cells
    summary: Summary

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return 2 * self.cells.sums.numel() + 3 * self.summary.entropy.numel() + self.summary.received.numel()


def full_map(call: Call) -> FullMap:
    """One pass over a call, at the lowest level whose cells are few enough to keep."""
    level = kept_level(call.extent.queries, call.extent.keys)
    blocks, summing = Blocking(call, level, level), Summing(call)
    # Whole bands, which need no padding.
    tall = max(CAPACITY // max(call.extent.keys, 1) >> level, 1) << level
    ask(call, blocks, summing, capacity=tall * max(call.extent.keys, 1))
    return FullMap(cells=blocks.answer(), summary=summing.answer())


class Head(NamedTuple):
    """Which head of which example."""

    example: int
    layer: int
    entry: int
    head: int


class FullMapCache:
    """Full maps by head; the least recently used are dropped first."""

    def __init__(self) -> None:
        self._found: OrderedDict[Head, FullMap] = OrderedDict()
        self._lock, self._long = threading.Lock(), threading.Lock()

    def known(self, head: Head) -> FullMap | None:
        """The map of a head, if it is cached."""
        with self._lock:
            found = self._found.get(head)
            if found is not None:
                self._found.move_to_end(head)
            return found

    def get(self, head: Head, call: Call) -> FullMap:
        """The map of a head. Long ones are computed one at a time, which leaves a core free for short requests."""
        if cost(call) <= CHEAP:
            return self.known(head) or self._keep(head, full_map(call))
        with self._long:
            return self.known(head) or self._keep(head, full_map(call))

    def forget(self, example: int) -> None:
        """Drop the heads of an example."""
        with self._lock:
            for head in [head for head in self._found if head.example == example]:
                del self._found[head]

    def _keep(self, head: Head, found: FullMap) -> FullMap:
        with self._lock:
            self._found[head] = found
            while len(self._found) > 1 and sum(each.size for each in self._found.values()) > _CACHED:
                self._found.popitem(last=False)
        return found


def kept_level(queries: int, keys: int) -> int:
    """The lowest level at which a map is kept whole."""
    level = 0
    while cells(queries, level) * cells(keys, level) > CELLS:
        level += 1
    return level


def cells(positions: int, level: int) -> int:
    """How many cells of a level cover so many positions."""
    return -(-positions >> level)


def _blocks(values: Tensor, high: int, wide: int) -> Tensor:
    values = _filled(_filled(values, -1, 0, wide), -2, 0, high)
    return rearrange(values, "n (h high) (w wide) -> n h high w wide", high=high, wide=wide)


def _columns(values: Tensor, level: int) -> Tensor:
    return rearrange(values, "n h (w wide) -> n h w wide", wide=1 << level)


def _filled(values: Tensor, axis: int, before: int, block: int) -> Tensor:
    """Zeros before, and as many behind as make whole blocks."""
    after = -(before + values.shape[axis]) % block
    if not before and not after:
        return values
    return F.pad(values, (before, after) if axis == -1 else (0, 0, before, after))
