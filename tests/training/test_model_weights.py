"""Weights by name."""

import pytest
import torch
from torch import nn
from training.toys import copied, same, toy

from regard.errors import RegardError
from regard.training.model_weights import RunningMean, install, mean_of, weights_of


def test_what_is_tied_is_there_once_and_stays_tied() -> None:
    model = toy()
    weights = weights_of(model)
    assert list(weights) == ["table.weight", "inner.weight", "inner.bias"]
    install(model, {name: weight + 1 for name, weight in copied(model).items() if name in weights})
    assert model.output.weight is model.table.weight
    assert torch.equal(model.output.weight, toy().table.weight + 1)


def test_buffers_that_are_kept_belong_to_the_weights() -> None:
    assert list(weights_of(nn.BatchNorm1d(3))) == [
        *("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    ]


def test_weights_that_do_not_fit_change_nothing() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
    before = copied(model)
    wrong = {name: weight + 1 for name, weight in before.items()} | {"1.weight": torch.ones(2, 4)}
    with pytest.raises(RegardError, match=r"1\.weight is \[2, 3\] here and \[2, 4\]"):
        install(model, wrong)
    with pytest.raises(RegardError, match=r"without \['1\.bias'\], with \['2\.bias'\]"):
        install(model, {name.replace("1.b", "2.b"): weight for name, weight in before.items()})
    assert same(copied(model), before)


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
