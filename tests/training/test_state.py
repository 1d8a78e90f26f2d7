"""A state that was kept is the state, to the bit."""

from pathlib import Path

import pytest
import torch
from training.toys import Words, plan, same, toy

from regard.errors import RegardError
from regard.training import checkpoint_retention as checkpoints
from regard.training.loop import train
from regard.training.state import TrainingProgress, TrainingState


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
    checkpoint = checkpoints.write_checkpoint(tmp_path, 3, state.tensors(), about=state.about())
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
