"""The optimiser: what decays, and how gradients are normalised."""

import pytest
import torch
from torch import nn
from training.toys import plan

from regard import MultiHeadAttention
from regard.errors import RegardError
from regard.layers.embedding import Embedding
from regard.layers.positions import Learned
from regard.training.optimiser import adamw, decays, normalise_


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
