"""Scores by name, as settings of models have them."""

from typing import Literal

from regard.attention.scores import Additive, Bilinear, Cosine, Dot, LowRank, ScaledDot, Score

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
