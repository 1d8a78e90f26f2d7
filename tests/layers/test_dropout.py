"""Dropout: how much is dropped, and that what is expected stays."""

import pytest
import torch

from regard.layers.dropout import Dropout


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_that_share_is_dropped_and_the_mean_stays(share: float, dtype: torch.dtype) -> None:
    x = torch.ones(499, 401, dtype=dtype)
    y = Dropout(share)(x)
    assert y.dtype == dtype
    assert y.eq(0).double().mean().item() == pytest.approx(share, abs=0.01)
    torch.testing.assert_close(
        y.unique().double(), torch.tensor([0, 1 / (1 - share)]).double(), rtol=1e-2, atol=0
    )
    assert y.double().mean().item() == pytest.approx(1, abs=0.06)


def test_neighbours_are_dropped_independently() -> None:
    kept = Dropout(0.5)(torch.ones(200_000)).bool().double() - 0.5
    for distance in (1, 2, 3, 4, 8):
        assert abs((kept[distance:] * kept[:-distance]).mean().item()) < 0.005


def test_the_gradient_goes_where_the_numbers_went() -> None:
    x = torch.ones(37, 3, requires_grad=True)
    y = Dropout(0.3)(x)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


def test_a_seed_makes_it_the_same_and_nothing_is_dropped_when_not_training() -> None:
    drop, x = Dropout(0.4), torch.randn(5, 7)
    torch.manual_seed(1)
    first = drop(x)
    torch.manual_seed(1)
    assert torch.equal(drop(x), first)
    assert drop.eval()(x) is x
    assert Dropout(0.0)(x) is x
    assert not Dropout(1.0)(x).any()
