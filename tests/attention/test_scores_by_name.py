"""Scores by name: each is the class of that name, with the sizes it was given."""

from typing import get_args

import pytest
import torch

from regard import Additive, Bilinear, Cosine, Dot, LowRank, ScaledDot, Score
from regard.attention.scores import ScoreName, make_score


@pytest.mark.parametrize(
    ("name", "kind", "weights"),
    [
        ("dot", Dot, {}),
        ("scaled-dot", ScaledDot, {}),
        ("cosine", Cosine, {"log_temperature": ()}),
        ("bilinear", Bilinear, {"weight": (4, 5, 7)}),
        ("low-rank", LowRank, {"query_weight": (4, 3, 5), "key_weight": (2, 3, 7)}),
        ("additive", Additive, {"query_weight": (4, 11, 5), "key_weight": (2, 11, 7), "vector": (4, 11)}),
    ],
)
def test_a_name_makes_its_score(
    name: ScoreName, kind: type[Score], weights: dict[str, tuple[int, ...]]
) -> None:
    score = make_score(name, 5, 7, rank=3, hidden=11, heads=4, kv_heads=2)
    assert type(score) is kind
    assert {each: tuple(part.shape) for each, part in score.named_parameters()} == weights


def test_every_name_makes_a_score_that_scores() -> None:
    query, key = torch.randn(2, 3, 6), torch.randn(2, 5, 6)
    for name in get_args(ScoreName):
        assert make_score(name, 6, 6, rank=2, hidden=4)(query, key).shape == (2, 3, 5)
