"""Modules that imported a function of torch by name are found, whenever they did, and given back what they had."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard import watch

NAME = "scaled_dot_product_attention"


class Attending(nn.Module):
    """Calls the function that a module holds."""

    def __init__(self, module: ModuleType) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return getattr(self.module, NAME)(x, x, x)


def seen_of(module: ModuleType) -> int:
    model, x = Attending(module), torch.randn(1, 2, 5, 4)
    with watch(model) as seen:
        model(x)
    return len(seen)


def imported(name: str, monkeypatch: pytest.MonkeyPatch, *, spec: bool) -> ModuleType:
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None) if spec else None
    monkeypatch.setitem(sys.modules, name, module)
    return module


def test_a_module_that_is_imported_between_two_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert seen_of(F) == 1
    late = imported("imported_late", monkeypatch, spec=True)
    late.scaled_dot_product_attention = F.scaled_dot_product_attention
    original = F.scaled_dot_product_attention
    assert seen_of(late) == 1
    assert late.scaled_dot_product_attention is original


def test_a_notebook_that_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = imported("a_notebook", monkeypatch, spec=False)
    assert seen_of(F) == 1
    notebook.scaled_dot_product_attention = F.scaled_dot_product_attention  # in a later cell
    assert seen_of(notebook) == 1


def test_what_somebody_put_there_since_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    module = imported("patched_later", monkeypatch, spec=True)
    module.scaled_dot_product_attention = F.scaled_dot_product_attention
    assert seen_of(module) == 1

    def own(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return value

    module.scaled_dot_product_attention = own
    assert seen_of(module) == 0
    assert module.scaled_dot_product_attention is own
