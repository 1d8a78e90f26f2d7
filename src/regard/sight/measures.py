"""Measures: what kind of head is this, in numbers that need no matrix.

Each is computed in one pass over the strips of a call, alone or as a `Question` among others. A query that may look at
nothing contributes nothing. `offset` is the position of the first query among the keys, as in `causal`; by default the
queries are the last of the keys, as in self-attention with and without a cache.
"""

from abc import abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.batch_axes import pad_axes
from regard.attention.call import Call
from regard.errors import RegardError
from regard.sight.evidence import Question, answer_to, summarise
from regard.sight.strips import CAPACITY, Strip, heads_together


@dataclass(frozen=True, kw_only=True, eq=False)
class Reading:
    """A number for each query of each head."""

    each: Float[Tensor, "*batch q"]  # 0 where it does not count
    counted: Bool[Tensor, "*batch q"]

    def mean(self) -> Float[Tensor, "*batch"]:
        """Over the queries that count; 0 when none does."""
        return self.each.sum(-1) / self.counted.sum(-1).clamp_min(1)


def distance(call: Call, *, offset: int | None = None, capacity: int | None = None) -> Reading:
    """How far each query looks, in positions.

    Σ_j w_ij |i + offset − j| (Vig & Belinkov 2019; for patches Dosovitskiy 2021, fig. 7).
    """
    return answer_to(call, Reaching(call, offset=offset), capacity)


def diagonal(
    call: Call, ahead: int = 0, *, offset: int | None = None, capacity: int | None = None
) -> Reading:
    """How much each query looks at the key `ahead` of it, behind it when negative.

    w_ij at j = i + offset + ahead, over the queries that may look there. `diagonal(call, -1)` is the score of a
    previous-token head (Voita 2019; Olsson 2022).
    """
    return answer_to(call, Shifting(call, ahead, offset=offset), capacity)


def previous_token(call: Call, *, offset: int | None = None, capacity: int | None = None) -> Reading:
    """How much each query looks at the key just before it: `diagonal(call, -1)`."""
    return diagonal(call, -1, offset=offset, capacity=capacity)


def induction(
    call: Call, tokens: Int[Tensor, "*some k"], *, offset: int | None = None, capacity: int | None = None
) -> Reading:
    """How much each query looks at what followed its own token before: "… A B … A" looks at B.

    Σ_j w_ij over 1 ≤ j ≤ i with token_{j−1} = token_i, over the queries that may look at such a key: the
    prefix-matching score of induction heads (Olsson 2022). `tokens` are the ids at the positions of the keys, with
    the first batch axes of the call, or none.
    """
    return answer_to(call, Inducing(call, tokens, offset=offset), capacity)


class Gauging(Question[Reading]):
    """A sum over the keys of each query."""

    def __init__(self, call: Call, *, offset: int | None = None) -> None:
        self.batch, self.extent = call.query.shape[:-2], call.extent
        self.offset = _first_position(call, offset)
        wide = torch.promote_types(call.query.dtype, torch.float32)
        sizes = (self.batch.numel(), self.extent.queries)
        self.each = torch.zeros(sizes, dtype=wide, device=self.extent.device)
        self.counted = torch.zeros_like(self.each, dtype=torch.bool)

    @abstractmethod
    def gauge(self, strip: Strip, positions: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
        """A sum over the parts of each row, and whether it counts; the positions are those of queries and keys."""

    def take(self, strip: Strip) -> None:
        """A strip holds whole rows."""
        rows = (strip.entries, strip.rows)
        positions, columns = self.extent.rows[strip.rows] + self.offset, self.extent.columns[strip.columns]
        total, self.counted[rows] = self.gauge(strip, positions, columns)
        self.each[rows] = total * strip.share

    def answer(self) -> Reading:
        """The number of each query."""
        sizes = (*self.batch, self.extent.queries)
        return Reading(each=self.each.view(sizes), counted=self.counted.view(sizes))


class Reaching(Gauging):
    """How far each query looks."""

    def gauge(self, strip: Strip, positions: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
        """Σ_j part_ij |i + offset − j|."""
        away = (positions[:, None] - columns).abs().to(strip.parts)
        return (strip.parts * away).sum(-1), strip.total > 0


class Shifting(Gauging):
    """How much each query looks at the key `ahead` of it."""

    def __init__(self, call: Call, ahead: int, *, offset: int | None = None) -> None:
        super().__init__(call, offset=offset)
        self.ahead = ahead

    def gauge(self, strip: Strip, positions: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
        """The part at i + offset + ahead."""
        return _mass(strip, columns == positions[:, None] + self.ahead)


class Inducing(Gauging):
    """How much each query looks at what followed its own token before."""

    def __init__(self, call: Call, tokens: Tensor, *, offset: int | None = None) -> None:
        super().__init__(call, offset=offset)
        keys, queries, axes = self.extent.keys, self.extent.queries, len(self.batch)
        if tokens.shape[-1] != keys or tokens.ndim - 1 > axes:
            raise RegardError(
                f"token ids of shape {tuple(tokens.shape)} for a call of {keys} keys and batch {tuple(self.batch)}: "
                "give one id a key, batch axes first"
            )
        if self.offset < 0 or self.offset + queries > keys:
            raise RegardError(
                f"{queries} queries from position {self.offset} on, but token ids for {keys} keys: each query "
                "needs a token of its own"
            )
        spread = pad_axes(tokens.to(self.extent.device), axes, tail=1).expand(*self.batch, keys)
        self.tokens = spread.reshape(self.batch.numel(), keys)

    def gauge(self, strip: Strip, positions: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
        """Σ_j part_ij where token_{j−1} = token_i and j ≤ i."""
        tokens = self.tokens[strip.entries]
        same = tokens[:, positions, None] == tokens[:, None, columns - 1]
        return _mass(strip, same & (columns >= 1) & (columns <= positions[:, None]))


@dataclass(frozen=True, kw_only=True, eq=False)
class Sinks:
    """Keys that receive mass from queries of every kind (Xiao 2024)."""

    shares: Float[Tensor, "*batch k"]  # of all the mass a head gives, the part each key gets
    first: Float[Tensor, "*batch"]  # the part that the first `count` keys get
    keys: Bool[Tensor, "*batch k"]  # the keys that get more than `above`

    @classmethod
    def of(cls, received: Float[Tensor, "*batch k"], *, count: int = 1, above: float = 0.3) -> "Sinks":
        """The sinks among keys that received this mass, where that is known already."""
        if count < 1 or not 0 <= above < 1:
            raise RegardError(
                f"sinks(count={count}, above={above}): at least one key, and a share from 0 to below 1"
            )
        shares = received / received.sum(-1, keepdim=True)
        shares = torch.where(received > 0, shares, 0.0)  # a head without any weights has no sinks
        return cls(shares=shares, first=shares[..., :count].sum(-1), keys=shares > above)

    def mass(self) -> Float[Tensor, "*batch"]:
        """The part of all mass that the sinks get together."""
        return (self.shares * self.keys).sum(-1)


def sinks(call: Call, *, count: int = 1, above: float = 0.3, capacity: int | None = None) -> Sinks:
    """How much of what a head gives goes to the first `count` keys, and which keys get more than `above` of it.

    Σ_i w_ij / Σ_ij w_ij (Xiao 2024; the threshold 0.3 is that of Gu 2025).
    """
    return Sinks.of(summarise(call, capacity=capacity).received, count=count, above=above)


def similarity(call: Call, *, capacity: int = CAPACITY) -> Float[Tensor, "*batch h h"]:
    """How alike each two heads look: 1 when their rows are equal, 0 when they never look at the same key.

    The mean over the queries i of Σ_j √(a_ij b_ij), the coefficient of Bhattacharyya (1946): 1 less the squared
    Hellinger distance. Like the Jensen–Shannon divergence it compares distributions (it is bounded, symmetric, and a
    key split in two alike halves changes nothing, as it would change the cosine of two rows); but it is a product of
    matrices, where Jensen–Shannon takes a logarithm for every pair of heads. Only queries at which both heads look at
    something count.
    """
    wide = torch.promote_types(call.query.dtype, torch.float32)
    batch, count = call.query.shape[:-3], call.query.shape[-3] if call.query.ndim > 2 else 1
    total = torch.zeros(batch.numel(), count, count, dtype=torch.float64, device=call.query.device)
    queries = torch.zeros_like(total)
    for part in heads_together(call, capacity=capacity):
        roots, looking = part.weights.sqrt().flatten(1), part.looking.to(wide)
        total[part.entry] += roots @ roots.mT
        queries[part.entry] += looking @ looking.mT
    return (total / queries.clamp_min(1)).to(wide).view(*batch, count, count)


def _mass(strip: Strip, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """The parts of the chosen pairs, and whether any of these may look."""
    # A hidden pair has no part and a very low score; in a row of very low scores, one like the others. The part alone
    # does not decide: that of a visible pair may underflow to 0.
    visible = (strip.below > -1e29) & ((strip.parts > 0) | (strip.below < -80))
    chosen = chosen & visible
    return (strip.parts * chosen).sum(-1), chosen.any(-1)


def _first_position(call: Call, offset: int | None) -> int:
    if offset is not None:
        return offset
    queries, keys = call.extent.queries, call.extent.keys
    if queries > keys:
        raise RegardError(
            f"{queries} queries cannot be the last of {keys} keys: give the position of the first, offset=0 where both "
            "begin together"
        )
    return keys - queries
