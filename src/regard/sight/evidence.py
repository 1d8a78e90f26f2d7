"""Evidence: what is known about the weights of a call without holding them.

Every function takes a `Call`, goes over its strips once and answers exactly: as the weights in float64 would, but
for the rounding of float32. The extra memory is linear in the length of the sequence.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.call import Call
from regard.errors import RegardError
from regard.sight.strips import ROOM, strips


@dataclass(frozen=True, kw_only=True, eq=False)
class Summary:
    """What one pass says of every query and every key."""

    logsumexp: Float[Tensor, "*batch q"]  # log Σ exp(score); −∞ when the query may look at nothing
    entropy: Float[Tensor, "*batch q"]  # −Σ w log w, in nats: 0 looks at one key, log k at k alike
    peak: Float[Tensor, "*batch q"]  # the largest weight
    received: Float[Tensor, "*batch k"]  # Σ over the queries of the weight on a key


def summarise(call: Call, *, room: int = ROOM) -> Summary:
    """Log-sum-exp, entropy, largest weight and received mass, in one pass."""
    extent, batch = call.extent, call.query.shape[:-2]
    logsumexp, entropy, peak = (_zeros(call, extent.queries) for _ in range(3))
    received = _zeros(call, extent.keys)
    for strip in strips(call, room=room):
        rows, share, log_total = (strip.entries, strip.rows), strip.share, strip.total.log()
        logsumexp[rows] = log_total + strip.largest  # log 0 = −∞
        inner = torch.linalg.vecdot(strip.parts, strip.below)
        entropy[rows] = torch.where(share > 0, log_total - inner * share, 0.0)
        peak[rows] = share  # the largest part is exp(0)
        received[strip.entries, strip.columns] += torch.bmm(share[:, None], strip.parts).squeeze(1)
    return Summary(
        logsumexp=logsumexp.view(*batch, -1),
        entropy=entropy.view(*batch, -1),
        peak=peak.view(*batch, -1),
        received=received.view(*batch, -1),
    )


def top(
    call: Call, count: int, *, room: int = ROOM
) -> tuple[Int[Tensor, "*batch q count"], Float[Tensor, "*batch q count"]]:
    """The heaviest keys of each query and their weights, heaviest first; key −1 and weight 0 where there is none."""
    extent, batch = call.extent, call.query.shape[:-2]
    if count < 1:
        raise RegardError(f"top({count}): ask for at least one key")
    keys = torch.full((batch.numel(), extent.queries, count), -1, device=call.query.device)
    weights = _zeros(call, extent.queries, count)
    for strip in strips(call, room=room):
        found = min(count, strip.parts.shape[-1])
        parts, where = strip.parts.topk(found)
        parts = parts * strip.share[..., None]
        rows = (strip.entries, strip.rows, slice(0, found))
        weights[rows] = parts
        keys[rows] = torch.where(parts > 0, where + strip.columns.start, -1)
    return keys.view(*batch, -1, count), weights.view(*batch, -1, count)


def pooled(call: Call, height: int, width: int, *, room: int = ROOM) -> Float[Tensor, "*batch h w"]:
    """The weights as a matrix of at most `height` × `width`: in a cell, the mass that the queries of its row give to
    the keys of its column, averaged over those queries. Its rows sum to 1, as those of the weights do.
    """
    extent, batch = call.extent, call.query.shape[:-2]
    height, width = min(height, extent.queries), min(width, extent.keys)
    if height < 1 or width < 1:
        raise RegardError(
            f"a map of {height} × {width} cells over {extent.queries} queries and {extent.keys} keys"
        )
    cells = _zeros(call, height, width).double()
    edges = torch.tensor([-(-j * extent.keys // width) for j in range(width + 1)], device=call.query.device)
    band = extent.rows * height // extent.queries
    for strip in strips(call, room=room):
        bands = band[strip.rows]
        first, last = int(bands[0]), int(bands[-1]) + 1
        chosen = (bands == torch.arange(first, last, device=bands.device)[:, None]).to(strip.parts)
        rows = torch.bmm(chosen * strip.share[:, None], strip.parts)  # [n, bands, columns]
        # Sums over runs of columns are differences of a running total, in float64 so that they are exact enough.
        running = torch.nn.functional.pad(rows.double().cumsum(-1), (1, 0))
        at = (edges - strip.columns.start).clamp(0, rows.shape[-1])
        cells[strip.entries, first:last] += running[..., at].diff(dim=-1)
    heights = torch.bincount(band, minlength=height)
    return (cells / heights[:, None]).to(_wide(call)).view(*batch, height, width)


def rectangle(
    call: Call, queries: Int[Tensor, " r"], keys: Int[Tensor, " c"], *, room: int = ROOM
) -> Float[Tensor, "*batch r c"]:
    """The exact weights of some queries on some keys."""
    batch = call.query.shape[:-2]
    weights = _zeros(call, len(queries), len(keys))
    for start, stop, where in _runs(queries):
        for strip in strips(call, slice(start, stop), room=room):
            inside = ((keys >= strip.columns.start) & (keys < strip.columns.stop)).nonzero().squeeze(-1)
            found = strip.parts[..., keys[inside] - strip.columns.start] * strip.share[..., None]
            rows = where + torch.arange(strip.rows.start - start, strip.rows.stop - start, device=keys.device)
            weights[strip.entries, rows[:, None], inside] = found
    return weights.view(*batch, len(queries), len(keys))


def _runs(positions: Tensor) -> list[tuple[int, int, int]]:
    """Runs of consecutive positions, as (first, one past the last, where the run begins in the list)."""
    found: list[tuple[int, int, int]] = []
    for where, position in enumerate(positions.tolist()):
        if found and found[-1][1] == position:
            found[-1] = (found[-1][0], position + 1, found[-1][2])
        else:
            found.append((position, position + 1, where))
    return found


def _wide(call: Call) -> torch.dtype:
    return torch.promote_types(call.query.dtype, torch.float32)


def _zeros(call: Call, *sizes: int) -> Tensor:
    entries = call.query.shape[:-2].numel()
    return torch.zeros(entries, *sizes, dtype=_wide(call), device=call.query.device)
