"""A model is observed where a forward pass of it would be seen or changed, and in no other thread."""

from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor, nn

from regard import MultiHeadAttention, drop_heads, intervene, watch
from regard.attention.dispatch import observed, observers


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
