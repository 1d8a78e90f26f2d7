"""Averaged weights are kept where they are at least as good as what would be kept without them."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from training.test_loop import scripted
from training.toys import Notebook, Words, copied, plan, same, toy

from regard.training.final import better
from regard.training.log import Log
from regard.training.loop import train
from regard.training.observers import Observer, Update

NAN = float("nan")


class Keep(Observer):
    def __init__(self, model: torch.nn.Module) -> None:
        self.model, self.at = model, dict[int, dict[str, torch.Tensor]]()

    def stepped(self, update: Update) -> None:
        self.at[update.step] = copied(self.model)


def trained(folder: Path, values: list[float], *, metric: str = "loss", **changes: Any) -> Any:
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
    outcome, weights, at, notices, line = trained(tmp_path, [3.0, 1.0, last, mean], metric=metric, last=2)
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
    *_, notices, _ = trained(tmp_path, [9.0, 9.0, 25.0, 21.7], metric="bleu", last=3)
    assert notices == [
        "kept: last, with bleu 25 on validation data; mean of 3 checkpoints: 21.7, a difference of 3.3"
    ]


def test_with_patience_a_mean_is_compared_with_the_best(tmp_path: Path) -> None:
    outcome, weights, at, *_ = trained(tmp_path, [3.0, 1.0, 2.0, 1.5], last=2, patience=9)
    assert outcome.kind == "best, of step 4"
    assert same(weights, at[4])
    assert outcome.others == {"mean of 2 checkpoints": {"loss": 1.5}}


@pytest.mark.parametrize(("mean", "last", "kept"), [(1.0, 2.0, "running mean"), (2.0, 1.0, "last")])
def test_a_running_mean_is_compared_with_the_last(
    mean: float, last: float, kept: str, tmp_path: Path
) -> None:
    outcome, weights, at, notices, _ = trained(tmp_path, [3.0, 3.0, mean, last], ema=0.9)
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
