"""Means of weights over time against their definitions."""

import pytest
import torch
from torch import nn

from regard.errors import RegardError
from regard.training.averaging import RunningMean, mean_of


def test_the_running_mean_weighs_the_past_with_powers_of_its_decay() -> None:
    model = nn.Linear(3, 2).double()
    mean, path = RunningMean(model, 0.7), []
    for step in range(1, 9):
        with torch.no_grad():
            model.weight.copy_(torch.randn(2, 3))
        mean.update(step)
        path.append(model.weight.detach().clone())
    powers = torch.tensor([0.7 ** (8 - step) for step in range(1, 9)], dtype=torch.float64)
    expected = torch.einsum("s,sij->ij", powers / powers.sum(), torch.stack(path))
    torch.testing.assert_close(mean.means["weight"], expected, rtol=0, atol=1e-12)


def test_after_one_update_the_mean_is_the_weights() -> None:
    model = nn.Linear(3, 2)
    mean = RunningMean(model, 0.999)
    mean.update(1)
    assert torch.equal(mean.means["weight"], model.weight)


def test_the_weights_come_back_to_the_bit() -> None:
    model = nn.Linear(3, 2)
    mean = RunningMean(model, 0.9)
    mean.update(1)
    with torch.no_grad():
        model.weight.add_(1.0)
    before = model.weight.detach().clone()
    with mean.installed():
        assert torch.equal(model.weight, mean.means["weight"])
        assert not torch.equal(model.weight, before)
    assert torch.equal(model.weight, before)


def test_the_weights_come_back_after_an_error_too() -> None:
    model = nn.Linear(3, 2)
    before = model.weight.detach().clone()
    with pytest.raises(ZeroDivisionError), RunningMean(model, 0.9).installed():
        raise ZeroDivisionError
    assert torch.equal(model.weight, before)


def test_the_mean_of_several_is_exact_in_any_order_and_takes_counters_from_the_last() -> None:
    several = [{"w": torch.randn(4, 3), "n": torch.tensor(i)} for i in range(5)]
    expected = sum(each["w"].double() for each in several) / 5
    found = mean_of(several)
    torch.testing.assert_close(found["w"].double(), expected, rtol=1e-7, atol=0)
    assert torch.equal(mean_of([*reversed(several[:4]), several[4]])["w"], found["w"])
    assert found["n"] == 4


def test_a_mean_of_nothing_is_an_error() -> None:
    with pytest.raises(RegardError, match="no checkpoint to average"):
        mean_of([])


@pytest.mark.parametrize("decay", [1.0, -0.1, 2.0])
def test_a_decay_that_is_no_share_is_refused(decay: float) -> None:
    with pytest.raises(RegardError, match=r"averaging\.ema"):
        RunningMean(nn.Linear(2, 2), decay)
