"""A model is observed where a forward pass of it would be seen or changed, and in no other thread."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import torch
from torch import Tensor, nn

from regard import MultiHeadAttention, drop_heads, intervene, watch
from regard.attention.call import Call
from regard.attention.dispatch import AttentionObserver, dispatch, observed, observers


class Asking(nn.Module):
    """Asks whether it is observed while it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(8, 2)
        self.answers: list[bool] = []

    def forward(self, x: Tensor) -> Tensor:
        self.answers.append(observed())
        return self.attention(x)


def test_a_model_is_observed_with_its_parts_and_what_contains_it() -> None:
    model, other = nn.Sequential(Asking(), nn.Linear(8, 8)), Asking()
    outer = nn.ModuleList([model])
    x = torch.randn(1, 5, 8)
    assert not observed()
    assert not observed(model)
    with watch(model[0]) as seen, ThreadPoolExecutor(1) as pool:
        for one in (outer, model, model[0], model[0].attention):
            assert observed(one)
            assert pool.submit(observed, one).result()  # a watch follows its model into every thread
        assert not observed(other)
        assert not observed(model[1])
        assert not observed()
        model(x)
        other(x)
    assert (model[0].answers, other.answers) == ([True], [False])
    assert len(seen) == 1
    with intervene(model, {"0.attention": drop_heads(0)}), ThreadPoolExecutor(1) as pool:
        assert observed(model)
        assert not pool.submit(observed, model).result()
        assert not pool.submit(lambda: model(x) is None or model[0].answers[-1]).result()
        model(x)
        assert model[0].answers[-1]
    assert not observers


class Noting(AttentionObserver):
    """Adds to the scale before a call, and changes the output after it."""

    def __init__(self, more: float, change: Callable[[Tensor], Tensor]) -> None:
        self.more, self.change = more, change

    def before(self, call: Call, name: str) -> Call:
        return replace(call, scale=call.scale * self.more)

    def after(self, output: Tensor, name: str) -> Tensor:
        return self.change(output)


def test_observers_change_a_call_in_their_order_and_its_output_from_the_last_to_the_first() -> None:
    call, scales = Call(torch.ones(1, 2), torch.ones(1, 2)), []

    def proceed(asked: Call) -> tuple[Tensor, None]:
        scales.append(asked.scale)
        return torch.tensor([[[3.0]]]), None

    nested = [(Noting(2.0, lambda x: x + 1), "a"), (Noting(5.0, lambda x: x * 10), "a")]
    assert dispatch(call, proceed, nested).item() == 31  # (3 · 10) + 1: the inner one first
    assert scales == [10.0]
