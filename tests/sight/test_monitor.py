"""The monitor writes what the weights say, when it should, and changes nothing."""

import pytest
import torch
from torch import nn

from regard import MultiHeadAttention, RegardError, causal, weigh
from regard.sight.monitor import HeadRecord, Monitor


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = MultiHeadAttention(8, 2), MultiHeadAttention(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x, mask=causal()), mask=causal()).square().sum()


def test_records_are_of_the_chosen_steps_and_true() -> None:
    model, x, records = Model(), torch.randn(3, 6, 8), list[HeadRecord]()
    monitor = Monitor(model, every=2, write=records.append)
    losses = []
    for step in range(4):
        with monitor.at(step):
            losses.append(model(x))
    assert torch.equal(torch.stack(losses), losses[0].expand(4))
    assert [(r.step, r.module, r.head) for r in records] == [
        (step, module, head) for step in (0, 2) for module in ("first", "second") for head in (0, 1)
    ]
    weights = weigh(model.first.call(x, mask=causal())).double()
    entropy = -torch.special.xlogy(weights, weights).sum(-1)
    assert records[1].entropy == pytest.approx(entropy[:, 1].mean().item(), abs=1e-5)
    share = weights[:, 1].sum(-2) / 6
    assert records[1].sink == pytest.approx(share.amax(-1).mean().item(), abs=1e-5)


def test_gradients_under_the_monitor_are_the_same() -> None:
    model, x = Model(), torch.randn(3, 6, 8)
    plain = torch.autograd.grad(model(x), list(model.parameters()))
    with Monitor(model, every=1, write=lambda record: None).at(0):
        loss = model(x)
    for mine, theirs in zip(torch.autograd.grad(loss, list(model.parameters())), plain, strict=True):
        assert torch.equal(mine, theirs)


def test_every_is_at_least_one() -> None:
    with pytest.raises(RegardError, match="every=0"):
        Monitor(Model(), every=0, write=lambda record: None)
