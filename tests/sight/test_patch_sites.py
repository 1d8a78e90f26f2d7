"""Modules that imported a function of torch by name are found, whenever they did, and given back what they had."""

import sys
import threading
from contextlib import ExitStack
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


@pytest.mark.parametrize("first", [0, 1], ids=["opened first", "opened last"])
@pytest.mark.parametrize("kind", ["torch", "fused"])
def test_of_two_watches_the_one_left_open_goes_on(first: int, kind: str) -> None:
    original = F.scaled_dot_product_attention
    model: nn.Module = Attending(F)  # type: ignore[arg-type]
    x = torch.randn(1, 2, 5, 4)
    if kind == "fused":
        model, x = nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True).eval(), x[0]
    watches = [ExitStack(), ExitStack()]
    seen = [each.enter_context(watch(model)) for each in watches]
    with torch.no_grad():
        model(x)
        watches[first].close()
        model(x)
        watches[1 - first].close()
        model(x)
    assert [len(each) for each in seen] == ([1, 2] if first == 0 else [2, 1])
    assert F.scaled_dot_product_attention is original


def test_watches_that_many_threads_open_and_close_do_not_disturb_each_other() -> None:
    original, x = F.scaled_dot_product_attention, torch.randn(1, 2, 5, 4)
    lost: list[int] = []

    def look() -> None:
        model = Attending(F)  # type: ignore[arg-type]
        for _ in range(15):
            with watch(model) as seen:
                model(x)
            lost.append(1 - len(seen))

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(lost), sum(lost)) == (60, 0)
    assert F.scaled_dot_product_attention is original


def test_a_module_that_is_imported_while_watching_is_given_the_original(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original, model = F.scaled_dot_product_attention, Attending(F)  # type: ignore[arg-type]
    with watch(model):
        model(torch.randn(1, 2, 5, 4))
        late = imported("imported_while_watching", monkeypatch, spec=True)
        late.scaled_dot_product_attention = F.scaled_dot_product_attention
    assert late.scaled_dot_product_attention is original


def test_a_patch_of_somebody_else_is_kept_below_and_above_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    original, calls = F.scaled_dot_product_attention, []

    def below(*args: torch.Tensor) -> torch.Tensor:
        calls.append("below")
        return original(*args)

    monkeypatch.setattr(F, NAME, below)
    assert seen_of(F) == 1
    assert calls == ["below"]
    model, x = Attending(F), torch.randn(1, 2, 5, 4)  # type: ignore[arg-type]
    with watch(model) as seen:
        ours = F.scaled_dot_product_attention

        def above(*args: torch.Tensor) -> torch.Tensor:
            calls.append("above")
            return ours(*args)

        F.scaled_dot_product_attention = above
        model(x)
    assert len(seen) == 1
    assert F.scaled_dot_product_attention is above
    model(x)
    assert calls[1:] == ["above", "below"] * 2
