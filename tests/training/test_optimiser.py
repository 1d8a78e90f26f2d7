"""The optimiser: what decays, and how gradients are normalised."""

import math

import pytest
import torch
from torch import nn
from training.toys import plan

from regard import MultiHeadAttention
from regard.errors import RegardError
from regard.layers.embedding import Embedding, Learned
from regard.runs.settings import Training
from regard.training.optimiser import (
    adamw,
    constant,
    cosine,
    decays,
    inverse_square_root,
    normalise_,
    rate_at,
)


class Parts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.source = Embedding(7, 4, positions=Learned(4, count=9))
        self.target = nn.Embedding(7, 4)
        self.attention = MultiHeadAttention(4, 2)
        self.norm = nn.LayerNorm(4)
        self.output = nn.Linear(4, 7)
        self.output.weight = self.target.weight


def test_matrices_decay_and_embeddings_and_vectors_do_not() -> None:
    assert decays(Parts()) == {"attention.input.all.weight", "attention.output.weight"}


def test_an_update_without_gradients_shrinks_what_decays_and_nothing_else() -> None:
    model = Parts()
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    optimiser = adamw(model, plan(weight_decay=0.5, learning_rate=0.1))
    for weight in model.parameters():
        weight.grad = torch.zeros_like(weight)
    optimiser.step()
    for name, weight in model.named_parameters():
        factor = 0.95 if name in {"attention.input.all.weight", "attention.output.weight"} else 1.0
        torch.testing.assert_close(weight.detach(), before[name] * factor)


def test_what_is_frozen_is_not_the_optimisers_affair() -> None:
    model = Parts()
    model.attention.requires_grad_(False)
    held = {
        id(weight)
        for group in adamw(model, plan(weight_decay=0.5)).param_groups
        for weight in group["params"]
    }
    assert held == {id(weight) for weight in model.parameters() if weight.requires_grad}


def test_nothing_to_train_is_an_error() -> None:
    with pytest.raises(RegardError, match="nothing to train"):
        adamw(nn.Dropout(), plan())


@pytest.mark.parametrize("clip", [0.0, 0.01, 1.0, 1e6])
def test_gradients_are_means_no_longer_than_the_clip(clip: float) -> None:
    summed = [torch.randn(5, 3).double() * 40, torch.randn(7).double() * 40]
    mine, theirs = (
        [each.clone() for each in summed],
        [nn.Parameter(torch.zeros_like(each)) for each in summed],
    )
    for weight, gradient in zip(theirs, summed, strict=True):
        weight.grad = gradient / 17
    norm = torch.nn.utils.clip_grad_norm_(theirs, clip or float("inf"))
    torch.testing.assert_close(
        normalise_(mine, torch.tensor(17.0).double(), clip=clip), norm, rtol=1e-12, atol=0
    )
    for gradient, weight in zip(mine, theirs, strict=True):
        torch.testing.assert_close(gradient, weight.grad, rtol=1e-12, atol=0)


def test_the_inverse_square_root_is_the_papers_up_to_its_scale() -> None:
    """lrate = d^-0.5 · min(t^-0.5, t · w^-1.5) (Vaswani 2017, eq. 3)."""
    paper = [min(t**-0.5, t * 400**-1.5) for t in range(1, 5000)]
    ours = [inverse_square_root(t, rate=2e-3, warmup=400) for t in range(1, 5000)]
    assert ours == pytest.approx([each * 2e-3 / paper[399] for each in paper], rel=1e-12)
    assert max(ours) == ours[399] == 2e-3
    assert ours[1599] == pytest.approx(1e-3)


def test_the_cosine_falls_to_almost_nothing_at_the_last_update() -> None:
    rates = [cosine(t, rate=1.0, warmup=10, steps=109) for t in range(1, 110)]
    assert rates[:10] == pytest.approx([t / 10 for t in range(1, 11)])
    assert rates[9] == 1.0
    assert rates[59] == pytest.approx(0.5)  # halfway from 10 to 110
    assert rates[34] == pytest.approx((1 + math.sqrt(0.5)) / 2)
    assert 0 < rates[-1] < 1e-3
    assert rates[9:] == sorted(rates[9:], reverse=True)


def test_constant_is_level_after_warming_up() -> None:
    assert [constant(t, rate=3.0, warmup=3) for t in (1, 2, 3, 4, 900)] == [1.0, 2.0, 3.0, 3.0, 3.0]


@pytest.mark.parametrize("schedule", ["inverse-square-root", "cosine", "constant"])
def test_without_warming_up_the_first_update_has_the_whole_rate(schedule: str) -> None:
    settings = Training(schedule=schedule, warmup=0, learning_rate=0.5, steps=100)  # type: ignore[arg-type]
    assert rate_at(1, settings) == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize("schedule", ["inverse-square-root", "cosine", "constant"])
def test_a_run_shorter_than_its_warming_up_only_rises(schedule: str) -> None:
    settings = Training(schedule=schedule, warmup=50, learning_rate=1.0, steps=10)  # type: ignore[arg-type]
    assert [rate_at(t, settings) for t in range(1, 11)] == pytest.approx([t / 50 for t in range(1, 11)])


def test_a_training_gets_the_schedule_it_names() -> None:
    rates = {
        name: rate_at(400, Training(schedule=name, warmup=100, learning_rate=1.0, steps=999))  # type: ignore[arg-type]
        for name in ("inverse-square-root", "cosine", "constant")
    }
    assert rates["inverse-square-root"] == 0.5
    assert rates["constant"] == 1.0
    assert rates["cosine"] == pytest.approx((1 + math.cos(math.pi * 300 / 900)) / 2)
