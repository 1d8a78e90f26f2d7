"""Evidence: what is known about the weights of a call without holding them.

Several questions are answered in one pass, and exactly: as float64 weights would answer, up to the rounding of float32.
The extra memory is linear in the sequence length. On a GPU Triton kernels answer what they can (`choose_backend`);
everything else is computed over the strips of a call.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.call import Call
from regard.errors import RegardError
from regard.sight.kernels.kernel_mask import choose_backend
from regard.sight.strips import Strip, strips

Answer = TypeVar("Answer")


class Question(ABC, Generic[Answer]):
    """Something computed from every strip of a call."""

    @property
    def parts(self) -> "tuple[Question[Any], ...]":
        """The questions that are answered instead, where this one is made up of others."""
        return (self,)

    def begin(self, call: Call) -> None:
        """Allocate memory, before the first strip."""

    def take(self, strip: Strip) -> None:
        """Add what follows from a strip."""

    @abstractmethod
    def answer(self) -> Answer:
        """The answer, after the last strip, with the batch axes of the call."""


def ask(
    call: Call,
    *questions: Question[Any],
    level: Float[Tensor, "*batch q"] | None = None,
    capacity: int | None = None,
) -> None:
    """Answer several questions about a call in one pass; `capacity` is how many numbers a strip may hold.

    `level` is the log-sum-exp of every query, if it is known: on a GPU one pass is then enough for everything.
    """
    left = [part for question in questions for part in question.parts]
    if choose_backend(call).way == "kernels":
        from regard.sight.kernels.planner import answer

        left = answer(call, left, level)
    if left:
        for question in left:
            question.begin(call)
        for strip in strips(call, capacity=capacity):
            for question in left:
                question.take(strip)


@dataclass(frozen=True, kw_only=True, eq=False)
class QuerySummary:
    """How each query spreads its weights."""

    logsumexp: Float[Tensor, "*batch q"]  # log Σ exp(score); −∞ when the query may look at nothing
    entropy: Float[Tensor, "*batch q"]  # −Σ w log w, in nats: 0 looks at one key, log k at k alike
    peak: Float[Tensor, "*batch q"]  # the largest weight


@dataclass(frozen=True, kw_only=True, eq=False)
class Summary(QuerySummary):
    """How each query spreads its weights, and what each key receives."""

    received: Float[Tensor, "*batch k"]  # Σ over the queries of the weight on a key


class Looking(Question[QuerySummary]):
    """Log-sum-exp, entropy and largest weight."""

    def __init__(self, call: Call) -> None:
        self.batch = call.query.shape[:-2]
        self.logsumexp: Tensor
        self.entropy: Tensor
        self.peak: Tensor

    def begin(self, call: Call) -> None:
        """Allocate three numbers per query."""
        self.logsumexp, self.entropy, self.peak = (_zeros(call, call.extent.queries) for _ in range(3))

    def take(self, strip: Strip) -> None:
        """A strip holds whole rows."""
        rows, share, log_total = (strip.entries, strip.rows), strip.share, strip.total.log()
        self.logsumexp[rows] = log_total + strip.largest  # log 0 = −∞
        inner = torch.linalg.vecdot(strip.parts, strip.below)
        if bool((inner.isnan() & ~strip.total.isnan()).any()):  # a score of −∞: 0 · −∞ is NaN
            inner = torch.linalg.vecdot(strip.parts, strip.below.nan_to_num())
        self.entropy[rows] = torch.where(strip.total == 0, 0.0, log_total - inner * share)
        # The largest part is exp(0), unless scores are NaN.
        self.peak[rows] = torch.where(strip.total.isnan(), torch.nan, share)

    def answer(self) -> QuerySummary:
        """Log-sum-exp, entropy and peak."""
        return QuerySummary(
            logsumexp=_unflat(self.logsumexp, self.batch),
            entropy=_unflat(self.entropy, self.batch),
            peak=_unflat(self.peak, self.batch),
        )


class Receiving(Question[Tensor]):
    """The mass each key receives from all queries together."""

    def __init__(self, call: Call) -> None:
        self.batch = call.query.shape[:-2]
        self.received: Tensor

    def begin(self, call: Call) -> None:
        """Allocate a number per key."""
        self.received = _zeros(call, call.extent.keys)

    def take(self, strip: Strip) -> None:
        """Masses are summed over strips."""
        self.received[strip.entries, strip.columns] += torch.bmm(strip.share[:, None], strip.parts).squeeze(1)

    def answer(self) -> Float[Tensor, "*batch k"]:
        """The mass of each key."""
        return _unflat(self.received, self.batch)


class Summing(Question[Summary]):
    """Log-sum-exp, entropy, largest weight and received mass."""

    def __init__(self, call: Call) -> None:
        self.looking, self.receiving = Looking(call), Receiving(call)

    @property
    def parts(self) -> tuple[Question[Any], ...]:
        """Queries and keys are answered by themselves."""
        return (self.looking, self.receiving)

    def answer(self) -> Summary:
        """All four."""
        return Summary(**vars(self.looking.answer()), received=self.receiving.answer())


Heaviest = tuple[Int[Tensor, "*batch q n"], Float[Tensor, "*batch q n"]]


class Ranking(Question[Heaviest]):
    """The heaviest keys of each query and their weights, heaviest first; key −1 and weight 0 where there is none."""

    def __init__(self, call: Call, count: int) -> None:
        if count < 1:
            raise RegardError(f"top({count}): ask for at least one key")
        self.batch, self.count = call.query.shape[:-2], count
        self.weights: Tensor
        self.keys: Tensor

    def begin(self, call: Call) -> None:
        """Allocate weights and positions per query."""
        self.weights = _zeros(call, call.extent.queries, self.count)
        self.keys = torch.full_like(self.weights, -1, dtype=torch.long)

    def take(self, strip: Strip) -> None:
        """A strip holds whole rows."""
        found = min(self.count, strip.parts.shape[-1])
        parts, where = strip.parts.topk(found)
        parts = parts * strip.share[..., None]
        rows = (strip.entries, strip.rows, slice(0, found))
        self.weights[rows] = parts
        self.keys[rows] = torch.where(parts > 0, where + strip.columns.start, -1)

    def answer(self) -> Heaviest:
        """Keys and weights."""
        return _unflat(self.keys, self.batch), _unflat(self.weights, self.batch)


class Pooling(Question[Tensor]):
    """The weights as a matrix of at most `height` × `width`: in a cell, the mass that the queries of its row give to
    the keys of its column, averaged over those queries. Its rows sum to 1, as those of the weights do.
    """

    def __init__(self, call: Call, height: int, width: int) -> None:
        extent = call.extent
        self.batch, self.dtype = call.query.shape[:-2], _wide(call)
        self.queries = extent.queries
        self.height, self.width = min(height, extent.queries), min(width, extent.keys)
        if self.height < 1 or self.width < 1:
            raise RegardError(
                f"a map of {height} × {width} cells over {extent.queries} queries and {extent.keys} keys"
            )
        self.cells: Tensor

    def begin(self, call: Call) -> None:
        """Allocate the cells, and find where columns end."""
        extent = call.extent
        self.cells = _zeros(call, self.height, self.width).double()
        self.band = extent.rows * self.height // extent.queries
        edges = [-(-j * extent.keys // self.width) for j in range(self.width + 1)]
        self.edges = torch.tensor(edges, device=extent.device)

    def take(self, strip: Strip) -> None:
        """Weights are summed over strips; a NaN spoils its own cell and no other."""
        broken = strip.parts.isnan() if bool(strip.total.isnan().any()) else None
        if broken is not None:
            strip = replace(strip, parts=strip.parts.masked_fill(broken, 0.0))
        bands, cells = self._cells(strip)
        self.cells[strip.entries, bands] += cells
        if broken is not None:
            _, count = self._cells(
                replace(strip, parts=broken.to(strip.parts), total=torch.ones_like(strip.total))
            )
            self.cells[strip.entries, bands] += torch.where(count > 0, torch.nan, 0.0)

    def _cells(self, strip: Strip) -> tuple[slice, Float[Tensor, "n bands w"]]:
        """Rows are summed by a matrix product, columns as differences of a cumulative sum in float64."""
        first, rows = self._by_band(strip)
        running = torch.nn.functional.pad(rows.double().cumsum(-1), (1, 0))
        at = (self.edges - strip.columns.start).clamp(0, rows.shape[-1])
        return slice(first, first + rows.shape[1]), running[..., at].diff(dim=-1)

    def _by_band(self, strip: Strip) -> tuple[int, Float[Tensor, "n bands c"]]:
        """The first band of a strip, and the mass that each of its bands of queries gives to every key."""
        start, stop = strip.rows.start, strip.rows.stop
        tall, uneven = divmod(self.queries, self.height)
        n, _, columns = strip.parts.shape
        if not uneven and start % tall == 0 and stop % tall == 0:  # whole bands of one height
            shares, parts = strip.share.reshape(-1, 1, tall), strip.parts.reshape(-1, tall, columns)
            return start // tall, torch.bmm(shares, parts).view(n, -1, columns)
        bands = self.band[strip.rows]
        first = int(bands[0])
        chosen = bands - first == torch.arange(int(bands[-1]) - first + 1, device=bands.device)[:, None]
        return first, torch.bmm(chosen.to(strip.parts) * strip.share[:, None], strip.parts)

    def answer(self) -> Float[Tensor, "*batch h w"]:
        """The cells, averaged over their queries."""
        tall, uneven = divmod(self.queries, self.height)
        heights: int | Tensor = tall
        if uneven:
            edges = [-(-i * self.queries // self.height) for i in range(self.height + 1)]
            heights = torch.tensor(edges, device=self.cells.device).diff()[:, None]
        return (self.cells / heights).to(self.dtype).view(*self.batch, self.height, self.width)


def answer_to(call: Call, question: Question[Answer], capacity: int | None = None) -> Answer:
    """The answer to one question about a call."""
    ask(call, question, capacity=capacity)
    return question.answer()


def summarise(call: Call, *, capacity: int | None = None) -> Summary:
    """Log-sum-exp, entropy, largest weight and received mass."""
    return answer_to(call, Summing(call), capacity)


def rectangle(
    call: Call, queries: Int[Tensor, " r"], keys: Int[Tensor, " c"], *, capacity: int | None = None
) -> Float[Tensor, "*batch r c"]:
    """The exact weights of some queries on some keys."""
    batch = call.query.shape[:-2]
    if choose_backend(call).way == "kernels":
        from regard.sight.kernels.planner import cut

        return cut(call, queries, keys).view(*batch, len(queries), len(keys))
    weights = _zeros(call, len(queries), len(keys))
    for start, stop, where in _runs(queries):
        for strip in strips(call, slice(start, stop), capacity=capacity):
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


def _unflat(rows: Tensor, batch: tuple[int, ...]) -> Tensor:
    """[entries, …] with the batch axes of the call."""
    return rows.view(*batch, *rows.shape[1:])
