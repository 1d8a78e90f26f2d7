"""Weights by name."""

import pytest
import torch
from torch import nn
from training.toys import copied, same, toy

from regard.errors import RegardError
from regard.training.weights import install, weights_of


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
