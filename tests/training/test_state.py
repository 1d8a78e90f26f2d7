"""A state that was kept is the state, to the bit."""

from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from torch import nn
from training.toys import Words, copied, plan, same, toy

from regard import MultiHeadAttention
from regard.errors import RegardError
from regard.layers.embedding import Embedding, Learned
from regard.runs import checkpoints
from regard.runs.checkpoints import TrainingProgress
from regard.training.loop import train
from regard.training.state import (
    RunningMean,
    TrainingState,
    adamw,
    decays,
    install,
    mean_of,
    normalise_,
    weights_of,
)


def trained(**options: float) -> TrainingState:
    settings = plan(ema=0.9, **options)
    state = TrainingState(toy(), settings)
    for step in range(1, 4):
        state.optimiser.zero_grad()
        state.model.loss(Words().batch(range(step + 2))).total.backward()  # type: ignore[operator]
        state.optimiser.step()
        assert state.mean is not None
        state.mean.update(step)
    state.progress = TrainingProgress(
        step=3, epoch=1, position=2, metrics={"loss": 0.1 + 0.2}, best={"loss": 1 / 3}, best_step=2, waited=1
    )
    return state


def test_everything_is_restored(tmp_path: Path) -> None:
    state = trained()
    kept = {name: tensor.clone() for name, tensor in state.tensors().items()}
    checkpoint = checkpoints.write_checkpoint(tmp_path, 3, state.tensors(), about=asdict(state.progress))
    other = TrainingState(toy(), plan(ema=0.9))
    torch.manual_seed(77)
    torch.nn.init.zeros_(other.model.inner.weight)  # type: ignore[arg-type,union-attr]
    other.restore(checkpoint)
    assert same(other.tensors(), kept)
    assert other.progress == state.progress
    drawn = torch.rand(3)
    torch.set_rng_state(kept["random/cpu"])
    assert torch.equal(drawn, torch.rand(3))


def test_a_tied_weight_is_kept_once(tmp_path: Path) -> None:
    names = [name for name in trained().tensors() if name.startswith("weights/")]
    assert names == ["weights/table.weight", "weights/inner.weight", "weights/inner.bias"]


def test_a_checkpoint_without_a_running_mean_cannot_go_on_with_one(tmp_path: Path) -> None:
    train(toy(), Words(), plan(), folder=tmp_path, seed=1)
    with pytest.raises(RegardError, match=r"made with averaging\.ema = 0"):
        train(toy(), Words(), plan(ema=0.9), folder=tmp_path, seed=1, resume=True)


def test_another_models_checkpoint_is_refused(tmp_path: Path) -> None:
    train(toy(), Words(), plan(), folder=tmp_path, seed=1)
    with pytest.raises(
        RegardError, match=r"another model's weights: without \['spare.bias', 'spare.weight'\]"
    ):
        train(toy(spare=True), Words(), plan(), folder=tmp_path, seed=1, resume=True)


def test_what_was_trained_and_is_frozen_now_is_refused(tmp_path: Path) -> None:
    train(toy(), Words(), plan(), folder=tmp_path, seed=1)
    model = toy()
    model.inner.requires_grad_(False)
    with pytest.raises(RegardError, match=r"has trained inner\.\w+, which is frozen now"):
        train(model, Words(), plan(), folder=tmp_path, seed=1, resume=True)


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


def test_frozen_weights_are_left_to_no_optimiser() -> None:
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
