"""The model as it answers, and afterwards as it was."""

import pytest
import torch
from torch import nn

from regard.decoding.evaluating import evaluating


def modes(model: nn.Module) -> list[bool]:
    return [part.training for part in model.modules()]


def test_every_modules_own_mode_comes_back() -> None:
    model = nn.Sequential(nn.Dropout(), nn.Sequential(nn.Dropout(), nn.Linear(2, 2)))
    model[1].eval()
    before = modes(model)
    with evaluating(model):
        assert not any(modes(model))
        assert not torch.is_grad_enabled()
        with evaluating(model):
            assert not any(modes(model))
        assert not any(modes(model))
        assert not torch.is_grad_enabled()
    assert modes(model) == before
    assert torch.is_grad_enabled()


def test_the_mode_comes_back_after_an_error() -> None:
    model = nn.Dropout()

    def fail() -> None:
        with evaluating(model):
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert model.training
    assert torch.is_grad_enabled()


def test_what_is_no_module_is_left_alone() -> None:
    with evaluating(object()):
        assert not torch.is_grad_enabled()
