"""A state that was kept is the state, to the bit."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from training.test_loop import scripted
from training.toys import Notebook, Words, copied, plan, same, toy

from regard.errors import RegardError
from regard.runs import checkpoints
from regard.runs.checkpoints import TrainingProgress
from regard.training.loop import train
from regard.training.observers import Log, Observer, Update
from regard.training.state import (
    RunningMean,
    TrainingState,
    better,
    install,
    mean_of,
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


NAN = float("nan")


class Keep(Observer):
    def __init__(self, model: torch.nn.Module) -> None:
        self.model, self.at = model, dict[int, dict[str, torch.Tensor]]()

    def stepped(self, update: Update) -> None:
        self.at[update.step] = copied(self.model)


def ended(folder: Path, values: list[float], *, metric: str = "loss", **changes: Any) -> Any:
    """Six updates with an evaluation every two; the values of the metric, one an evaluation."""
    model = toy()
    keep, notes = Keep(model), Notebook()
    outcome = train(
        model,
        Words(),
        plan(steps=6, evaluate=2, save=2, best=metric, **changes),
        folder=folder,
        seed=1,
        evaluate=scripted(values, metric),
        observers=[keep, notes, Log(folder / "log.jsonl")],
    )
    return (
        outcome,
        copied(model),
        keep.at,
        notes.notices,
        json.loads(open(folder / "log.jsonl").readlines()[-1]),
    )


@pytest.mark.parametrize(
    ("metric", "last", "mean", "kept"),
    [
        ("loss", 2.0, 1.5, "mean"),
        ("loss", 2.0, 2.0, "mean"),  # which was asked for
        ("loss", 2.0, 2.5, "last"),
        ("loss", 2.0, NAN, "last"),
        ("loss", NAN, 2.0, "mean"),
        ("bleu", 25.0, 21.7, "last"),
        ("bleu", 21.7, 25.0, "mean"),
    ],
)
def test_a_mean_of_checkpoints_is_compared_with_the_last(
    metric: str, last: float, mean: float, kept: str, tmp_path: Path
) -> None:
    outcome, weights, at, notices, line = ended(tmp_path, [3.0, 1.0, last, mean], metric=metric, last=2)
    if kept == "last":
        assert same(weights, at[6])
    else:
        assert torch.equal(
            weights["inner.bias"], (at[4]["inner.bias"].double() + at[6]["inner.bias"]).div(2).float()
        )
    kinds = {"last": "last", "mean": "mean of 2 checkpoints"}
    [other] = {"last", "mean"} - {kept}
    assert outcome.kind == line["weights"] == kinds[kept]
    assert str(outcome.metrics) == str({metric: last if kept == "last" else mean})
    assert str(outcome.others) == str({kinds[other]: {metric: mean if kept == "last" else last}})
    assert line["others"].keys() == outcome.others.keys()
    assert notices[-1].startswith(f"kept: {kinds[kept]}, with {metric} ")
    assert f"; {kinds[other]}: " in notices[-1]


def test_how_much_worse_the_mean_was_is_said(tmp_path: Path) -> None:
    *_, notices, _ = ended(tmp_path, [9.0, 9.0, 25.0, 21.7], metric="bleu", last=3)
    assert notices == [
        "kept: last, with bleu 25 on validation data; mean of 3 checkpoints: 21.7, a difference of 3.3"
    ]


def test_with_patience_a_mean_is_compared_with_the_best(tmp_path: Path) -> None:
    outcome, weights, at, *_ = ended(tmp_path, [3.0, 1.0, 2.0, 1.5], last=2, patience=9)
    assert outcome.kind == "best, of step 4"
    assert same(weights, at[4])
    assert outcome.others == {"mean of 2 checkpoints": {"loss": 1.5}}


@pytest.mark.parametrize(("mean", "last", "kept"), [(1.0, 2.0, "running mean"), (2.0, 1.0, "last")])
def test_a_running_mean_is_compared_with_the_last(
    mean: float, last: float, kept: str, tmp_path: Path
) -> None:
    outcome, weights, at, notices, _ = ended(tmp_path, [3.0, 3.0, mean, last], ema=0.9)
    assert (outcome.kind, outcome.metrics) == (kept, {"loss": 1.0})
    assert same(weights, at[6]) == (kept == "last")
    assert notices[-1].startswith(f"kept: {kept}, with loss 1 ")


def test_without_an_evaluation_a_mean_is_kept_as_asked(tmp_path: Path) -> None:
    outcome = train(toy(), Words(), plan(last=2), folder=tmp_path, seed=1)
    assert (outcome.kind, outcome.others) == ("mean of 2 checkpoints", {})


def test_best_weights_that_were_lost_do_not_lose_the_run(tmp_path: Path) -> None:
    class Thief(Observer):
        def stepped(self, update: Update) -> None:
            for each in (tmp_path / "checkpoints").glob("best-*"):
                each.unlink()

    model = toy()
    values = scripted([1.0, 2.0, 3.0])
    outcome = train(
        model, Words(), plan(patience=9), folder=tmp_path, seed=1, evaluate=values, observers=[Thief()]
    )
    assert outcome.kind == "last"
    assert "the best weights, of step 4, are gone" in outcome.notices[-1]


@pytest.mark.parametrize(
    ("new", "old", "metric", "expected"),
    [
        (1.0, 2.0, "loss", True),
        (1.0, 2.0, "bleu", False),
        (2.0, 2.0, "bleu", False),
        (NAN, 2.0, "loss", False),
        (2.0, NAN, "loss", True),
        (NAN, None, "loss", False),
        (2.0, None, "bleu", True),
    ],
)
def test_better(new: float, old: float | None, metric: str, expected: bool) -> None:
    assert better(new, old, metric) is expected
