"""A few queries on the CPU, against the equation in float64."""

import pytest
import torch

from regard.attention.attend import attend
from regard.attention.call import Call
from regard.attention.explain import explain
from regard.attention.masks import Mask, keep, lengths
from regard.attention.weights import weigh


@pytest.mark.parametrize("queries", [1, 4, 5])
@pytest.mark.parametrize(
    "mask",
    [None, lengths(keys=torch.tensor([7, 1, 0])), keep(torch.rand(3, 1, 1, 7) > 0.4)],
    ids=["everything", "lengths", "some"],
)
def test_a_few_queries_get_what_the_equation_says(queries: int, mask: Mask | None) -> None:
    query, key, value = torch.randn(3, 2, queries, 6), torch.randn(3, 2, 7, 6), torch.randn(3, 2, 7, 5)
    assert explain(Call(query, key, mask)).choice.kernel == "few"
    expected = weigh(query.double(), key.double(), mask) @ value.double()
    torch.testing.assert_close(attend(query, key, value, mask).double(), expected, rtol=0, atol=1e-6)


def test_nan_where_nobody_looks_does_not_matter() -> None:
    query, key, value = torch.randn(2, 2, 1, 6), torch.randn(2, 2, 7, 6), torch.randn(2, 2, 7, 5)
    mask = lengths(keys=torch.tensor([4, 7]))
    expected = attend(query, key, value, mask)
    key[0, :, 4:], value[0, :, 4:] = torch.nan, torch.inf
    assert torch.equal(attend(query, key, value, mask), expected)


def test_dropout_takes_weights_away_and_makes_the_others_larger() -> None:
    query, key = torch.randn(40, 2, 5, 6), torch.randn(40, 2, 7, 6)
    assert explain(Call(query, key), dropout=0.25).choice.kernel == "few"
    weights = weigh(query, key)
    left = attend(query, key, torch.eye(7).expand(40, 2, 7, 7), dropout=0.25)
    kept = left > 0
    torch.testing.assert_close(left, torch.where(kept, weights / 0.75, 0.0))
    assert 0.72 < kept.double().mean() < 0.78
