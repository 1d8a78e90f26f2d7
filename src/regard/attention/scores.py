"""Scores: how well a key answers a query, before softmax.

Five of the six are a pair of maps into a space where a dot product does the rest, `map_query(q) · map_key(k)`,
and so run on fused kernels. The sixth, additive, maps both into one space too, but joins them with a tanh.

| score        | equation                 | first seen                  |
|--------------|--------------------------|-----------------------------|
| `Dot`        | qᵀk                      | Luong 2015, eq. 7 (dot)     |
| `ScaledDot`  | qᵀk / √d                 | Vaswani 2017, eq. 1         |
| `Cosine`     | qᵀk / (‖q‖ ‖k‖ τ)        | Graves 2014, eq. 6          |
| `Bilinear`   | qᵀWk                     | Luong 2015, eq. 7 (general) |
| `LowRank`    | (Uq)ᵀ(Vk)                | Kim 2017, eq. 3             |
| `Additive`   | vᵀ tanh(Wk + Vq)         | Bahdanau 2015, app. A.1.2   |

Calling a score gives the matrix of scores by its equation, as the paper writes it. Scores with weights take
`heads` to hold one set a head; query and key then have their heads on axis −3.
"""

import math
from abc import ABC, abstractmethod
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.data.given import number, whole
from regard.errors import RegardError


class Score(nn.Module, ABC):
    """How well each key answers each query."""

    dot_product = True  # whether it is one, in the space that `map_query` and `map_key` map into

    @abstractmethod
    def forward(
        self, query: Float[Tensor, "*b q dq"], key: Float[Tensor, "*c k dk"]
    ) -> Float[Tensor, "*d q k"]:
        """The matrix of scores, by the equation."""

    def map_query(self, query: Float[Tensor, "*b q dq"]) -> Float[Tensor, "*b q r"]:
        """The query in the space where it meets the keys."""
        return query

    def map_key(self, key: Float[Tensor, "*b k dk"]) -> Float[Tensor, "*b k r"]:
        """The key in the space where it meets the queries."""
        return key

    @property
    def maps(self) -> bool:
        """Whether it maps queries or keys at all, and so computes with every one of them."""
        own = type(self)
        return own.map_query is not Score.map_query or own.map_key is not Score.map_key

    def mapped(self) -> "Score":
        """The same score for keys that have been through `map_key`, so that repeated calls map them once."""
        return self  # the keys of all but one stay what they are, or are only normalised

    def factor(self, width: int) -> float:
        """What the dot product in that space is multiplied by, for vectors of this width."""
        return 1.0

    def check(self, query_width: int, key_width: int) -> None:
        """Raise if vectors of these widths cannot meet under this score."""
        if query_width != key_width:
            raise RegardError(
                f"{type(self).__name__} compares vectors of one width, the query has {query_width} and the key "
                f"{key_width}: use Bilinear, LowRank or Additive, which have weights in between"
            )


class Dot(Score):
    """qᵀk."""

    def forward(
        self, query: Float[Tensor, "*b q d"], key: Float[Tensor, "*c k d"]
    ) -> Float[Tensor, "*e q k"]:
        """qᵀk for every pair."""
        return query @ share(key, query).mT


class ScaledDot(Score):
    """qᵀk / √d: of unit variance whatever the width, when the parts of q and k are."""

    def forward(
        self, query: Float[Tensor, "*b q d"], key: Float[Tensor, "*c k d"]
    ) -> Float[Tensor, "*e q k"]:
        """qᵀk / √d for every pair."""
        return query @ share(key, query).mT / math.sqrt(query.shape[-1])

    def factor(self, width: int) -> float:
        """1 / √d."""
        return 1.0 / math.sqrt(max(width, 1))


class Cosine(Score):
    """qᵀk / (‖q‖ ‖k‖ τ): only directions matter. The temperature τ is fixed, or learned (its logarithm is)."""

    def __init__(self, temperature: float = 1.0, *, learned: bool = False) -> None:
        super().__init__()
        if not number("temperature", temperature) > 0:
            raise RegardError(f"Cosine(temperature={temperature}): a temperature is positive")
        self.log_temperature = nn.Parameter(torch.tensor(math.log(temperature)), requires_grad=learned)

    def forward(
        self, query: Float[Tensor, "*b q d"], key: Float[Tensor, "*c k d"]
    ) -> Float[Tensor, "*e q k"]:
        """The cosine of the angle between each query and key, over τ."""
        key = share(key, query)
        sizes = _size(query) * _size(key).mT * self.log_temperature.to(query.dtype).exp()
        return (query @ key.mT / sizes).to(query.dtype)

    def map_query(self, query: Float[Tensor, "*b q d"]) -> Float[Tensor, "*b q d"]:
        """q / (‖q‖ τ)."""
        size = _size(query)
        return (query * (size * self.log_temperature.to(size.dtype).exp()).reciprocal()).to(query.dtype)

    def map_key(self, key: Float[Tensor, "*b k d"]) -> Float[Tensor, "*b k d"]:
        """k / ‖k‖."""
        return (key * _size(key).reciprocal()).to(key.dtype)


class Bilinear(Score):
    """qᵀWk, for queries and keys of any two widths."""

    def __init__(self, query_width: int, key_width: int, *, heads: int | None = None) -> None:
        super().__init__()
        self.weight = _weight(heads, query_width, key_width)

    def forward(
        self, query: Float[Tensor, "*b q dq"], key: Float[Tensor, "*c k dk"]
    ) -> Float[Tensor, "*e q k"]:
        """qᵀWk for every pair."""
        return torch.einsum("...qi,...ij,...kj->...qk", query, self.weight.to(query.dtype), share(key, query))

    def map_query(self, query: Float[Tensor, "*b q dq"]) -> Float[Tensor, "*b q dk"]:
        """Wᵀq."""
        return query @ self.weight.to(query.dtype)

    def check(self, query_width: int, key_width: int) -> None:
        """The widths must be those of W."""
        _check_widths(self, (query_width, key_width), (self.weight.shape[-2], self.weight.shape[-1]))


class LowRank(Score):
    """(Uq)ᵀ(Vk): a bilinear score whose W = UᵀV has a small rank.

    As a map it is VᵀUq against k itself: the keys stay as they are, so that a decoder maps them never again.
    """

    def __init__(
        self,
        query_width: int,
        key_width: int,
        *,
        rank: int,
        heads: int | None = None,
        kv_heads: int | None = None,
    ) -> None:
        super().__init__()
        self.query_weight = _weight(heads, rank, query_width)  # U
        self.key_weight = _weight(kv_heads or heads, rank, key_width)  # V

    def forward(
        self, query: Float[Tensor, "*b q dq"], key: Float[Tensor, "*c k dk"]
    ) -> Float[Tensor, "*e q k"]:
        """(Uq)ᵀ(Vk) for every pair."""
        u, v = self.query_weight.to(query.dtype), self.key_weight.to(key.dtype)
        return (query @ u.mT) @ share(key @ v.mT, query).mT

    def map_query(self, query: Float[Tensor, "*b q dq"]) -> Float[Tensor, "*b q dk"]:
        """VᵀUq."""
        u, v = self.query_weight.to(query.dtype), self.key_weight.to(query.dtype)
        if u.ndim == 3 and v.shape[0] != u.shape[0]:
            v = v.repeat_interleave(u.shape[0] // v.shape[0], 0)
        return query @ u.mT @ v

    def check(self, query_width: int, key_width: int) -> None:
        """The widths must be those of U and V."""
        _check_widths(
            self, (query_width, key_width), (self.query_weight.shape[-1], self.key_weight.shape[-1])
        )


class Additive(Score):
    """vᵀ tanh(Wk + Vq): a small network with one hidden layer of `hidden` units (r below).

    A W without columns (key_width=0) is for keys that come mapped already.
    """

    dot_product = False

    def __init__(
        self,
        query_width: int,
        key_width: int,
        *,
        hidden: int,
        heads: int | None = None,
        kv_heads: int | None = None,
    ) -> None:
        super().__init__()
        self.query_weight = _weight(heads, hidden, query_width)  # V
        self.key_weight = _weight(kv_heads or heads, hidden, key_width)  # W
        self.vector = nn.Parameter(torch.empty(*_head_axis(heads), hidden))  # v
        nn.init.uniform_(self.vector, -1 / math.sqrt(hidden), 1 / math.sqrt(hidden))

    def forward(
        self, query: Float[Tensor, "*b q dq"], key: Float[Tensor, "*c k dk"]
    ) -> Float[Tensor, "*e q k"]:
        """vᵀ tanh(Wk + Vq) for every pair. Holds q × k × r numbers; `attend` does not."""
        query, key = self.map_query(query), share(self.map_key(key), query)
        together = torch.tanh(query[..., :, None, :] + key[..., None, :, :])
        vector = self.vector.to(query.dtype)
        return (together * (vector if vector.ndim == 1 else vector[:, None, None, :])).sum(-1)

    def map_query(self, query: Float[Tensor, "*b q dq"]) -> Float[Tensor, "*b q r"]:
        """Vq."""
        return query @ self.query_weight.to(query.dtype).mT

    def map_key(self, key: Float[Tensor, "*b k dk"]) -> Float[Tensor, "*b k r"]:
        """Wk."""
        return key @ self.key_weight.to(key.dtype).mT if self.key_weight.shape[-1] else key

    def mapped(self) -> "Additive":
        """The same V and v, and no W."""
        score = Additive.__new__(Additive)  # not by its constructor, which draws random numbers
        nn.Module.__init__(score)
        score.query_weight, score.vector = self.query_weight, self.vector
        score.key_weight = nn.Parameter(self.key_weight.detach()[..., :0], requires_grad=False)
        return score

    def check(self, query_width: int, key_width: int) -> None:
        """The widths must be those of V and W."""
        columns = self.key_weight.shape[-1] or self.key_weight.shape[-2]
        _check_widths(self, (query_width, key_width), (self.query_weight.shape[-1], columns))


def share(key: Float[Tensor, "*kv k d"], query: Float[Tensor, "*b q e"]) -> Float[Tensor, "*b k d"]:
    """Keys (or values) for every head of the query: in grouped attention several heads share one."""
    if key.shape[:-2] == query.shape[:-2]:
        return key
    return key.repeat_interleave(query.shape[-3] // key.shape[-3], dim=-3)


def _head_axis(heads: int | None) -> tuple[int, ...]:
    return () if heads is None else (heads,)


def _weight(heads: int | None, rows: int, columns: int) -> nn.Parameter:
    for size in (rows, columns):
        whole("a width of a score", size, least=0)
    if heads is not None:
        whole("heads", heads, least=1)
    weight = nn.Parameter(torch.empty(*_head_axis(heads), rows, columns))
    bound = math.sqrt(6 / (rows + columns))  # Glorot 2010, eq. 16, head by head
    return nn.init.uniform_(weight, -bound, bound)  # type: ignore[return-value]


def _size(vector: Tensor) -> Tensor:
    # A zero vector has no direction: it scores 0 against everything, and its gradient stays finite.
    wide = torch.promote_types(vector.dtype, torch.float32)
    return torch.linalg.vector_norm(vector, dim=-1, keepdim=True, dtype=wide).clamp_min(1e-6)


def _check_widths(score: Score, given: tuple[int, int], own: tuple[int, int]) -> None:
    if given != own:
        raise RegardError(
            f"{type(score).__name__} was made for queries of width {own[0]} and keys of width {own[1]}, "
            f"and got {given[0]} and {given[1]}"
        )


ScoreName = Literal["dot", "scaled-dot", "cosine", "bilinear", "low-rank", "additive"]


def make_score(
    name: ScoreName,
    query_width: int,
    key_width: int,
    *,
    rank: int,  # k, of the low-rank score
    hidden: int,  # r, units of the additive score
    heads: int | None = None,  # weights of a score, where it has any: one set, or one a head
    kv_heads: int | None = None,
) -> Score:
    """A score between queries and keys of these widths; `rank` and `hidden` count where the score has them."""
    match name:
        case "dot":
            return Dot()
        case "scaled-dot":
            return ScaledDot()
        case "cosine":
            return Cosine(0.1, learned=True)  # at 1 no key could ever have much more than another
        case "bilinear":
            return Bilinear(query_width, key_width, heads=heads)
        case "low-rank":
            return LowRank(query_width, key_width, rank=rank, heads=heads, kv_heads=kv_heads)
        case "additive":
            return Additive(query_width, key_width, hidden=hidden, heads=heads, kv_heads=kv_heads)
