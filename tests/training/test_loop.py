"""The loop against one written out by hand, and its promises about stopping and going on."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from training.toys import Notebook, Toy, Words, copied, plan, same, toy, validation

from regard.data.batches import Sequences
from regard.errors import RegardError
from regard.models.protocols import Loss
from regard.runs import checkpoints
from regard.runs.tasks.prepared import AnsweredSample
from regard.training.loop import better, train
from regard.training.observers import Log, Observer, Update


def by_hand(model: Toy, feed: Words, steps: int) -> list[torch.Tensor]:
    """Plain AdamW on mean losses: what the loop is to do, in the usual way. The weights after every update."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0)
    order = [samples for epoch in range(9) for samples in feed.order(epoch)]
    path = []
    for step, samples in enumerate(order[:steps], 1):
        optimiser.param_groups[0]["lr"] = 0.05 * min(step / 3, 1)
        loss = model.loss(feed.batch(samples))
        optimiser.zero_grad()
        (loss.total / loss.count).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3)
        optimiser.step()
        path.append(torch.cat([weight.detach().flatten().clone() for weight in model.parameters()]))
    return path


@pytest.mark.parametrize("accumulate", [1, 2, 7])
def test_updates_are_those_of_a_plain_loop_whatever_the_number_of_parts(
    accumulate: int, tmp_path: Path
) -> None:
    ours, theirs = toy().double(), toy().double()
    path = by_hand(theirs, Words(), 12)
    train(ours, Words(), plan(accumulate=accumulate, clip=0.3), folder=tmp_path, seed=1)
    found = torch.cat([weight.flatten() for weight in ours.parameters()])
    torch.testing.assert_close(found, path[-1], rtol=0, atol=1e-6)  # 1e-6: clip / (norm + 1e-6) in both
    assert not torch.allclose(path[0], path[-1], atol=1e-2)


def test_every_sample_is_taken_once_an_epoch(tmp_path: Path) -> None:
    feed = Words(37, size=5)
    train(toy(), feed, plan(steps=16, accumulate=3), folder=tmp_path, seed=1)
    assert sorted(feed.taken[:37]) == list(range(37))
    assert sorted(feed.taken[37:]) == list(range(37))


def test_an_update_is_reported_in_sums_over_its_parts(tmp_path: Path) -> None:
    feed, notes = Words(), Notebook()
    expected = toy().loss(feed.batch(feed.order(0)[0]))
    train(toy(), feed, plan(accumulate=2), folder=tmp_path, seed=1, observers=[notes])
    first = notes.updates[0]
    assert first.total == pytest.approx(float(expected.total.detach()), rel=1e-6)
    assert (first.step, first.epoch, first.count) == (1, 0, int(expected.count))
    assert first.metrics["accuracy"] == float(expected.metrics["accuracy"])
    assert [update.epoch for update in notes.updates] == [0] * 8 + [1] * 4
    assert notes.closed


@pytest.mark.parametrize("stop", [1, 4, 5, 11])
@pytest.mark.parametrize("options", [{}, {"ema": 0.9}, {"last": 2}, {"patience": 9}])
def test_stopped_and_resumed_is_as_if_never_stopped(
    stop: int, options: dict[str, float], tmp_path: Path
) -> None:
    class Stop(Observer):
        def stepping(self, step: int) -> None:
            if step == stop:
                os.kill(os.getpid(), signal.SIGTERM)

    settings = plan(accumulate=2, **options)

    def run(folder: Path, *, resume: bool = False, observer: Observer | None = None):  # type: ignore[no-untyped-def]
        model = toy(dropout=0.3)
        watching = [] if observer is None else [observer]
        return train(
            model,
            Words(),
            settings,
            folder=folder,
            seed=1,
            evaluate=validation,
            resume=resume,
            observers=watching,
        )

    whole = run(tmp_path / "whole")
    stopped = run(tmp_path / "halves", observer=Stop())
    assert (stopped.stopped, stopped.step, whole.stopped) == (True, stop, False)
    torch.rand(7)  # whatever else draws random numbers meanwhile
    resumed = run(tmp_path / "halves", resume=True)
    assert same(resumed.weights, whole.weights)
    assert (resumed.metrics, resumed.kind) == (whole.metrics, whole.kind)
    again = run(tmp_path / "halves", resume=True)
    assert same(again.weights, whole.weights)
    assert again.metrics == whole.metrics


def test_signal_handlers_are_put_back(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    train(toy(), Words(), plan(), folder=tmp_path, seed=1)
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


@pytest.mark.parametrize(
    ("options", "number"),
    [
        *[
            (options, number)
            for options in ({}, {"ema": 0.9}, {"last": 2}, {"patience": 2})
            for number in (1, 3)
        ],
        ({"ema": 0.9}, 4),  # of the last weights, after all updates
        ({"last": 2}, 4),  # of the mean
    ],
)
def test_stopped_in_an_evaluation_it_leaves_at_once_and_is_resumed_to_the_bit(
    options: dict[str, float], number: int, tmp_path: Path
) -> None:
    count = 0

    def interrupted(model: nn.Module) -> dict[str, float]:
        nonlocal count
        count += 1
        if count == number:
            os.kill(os.getpid(), signal.SIGTERM)
            raise AssertionError("the evaluation went on")
        return validation(model)

    def run(name: str, *, resume: bool = False, evaluate=validation):  # type: ignore[no-untyped-def]
        log = Log(tmp_path / name / "log.jsonl", clock=lambda: 0.0)
        model, settings = toy(dropout=0.3), plan(learning_rate=0.5, **options)
        return train(
            model,
            Words(),
            settings,
            folder=tmp_path / name,
            seed=1,
            evaluate=evaluate,
            resume=resume,
            observers=[log],
        )

    whole = run("whole")
    stopped = run("halves", evaluate=interrupted)
    assert (stopped.stopped, stopped.step) == (True, min(4 * number, 12))
    resumed = run("halves", resume=True)
    assert same(resumed.weights, whole.weights)
    assert (resumed.metrics, resumed.kind, resumed.step) == (whole.metrics, whole.kind, whole.step)
    for name in ("log.jsonl", "checkpoints"):
        assert contents(tmp_path / "halves" / name) == contents(tmp_path / "whole" / name)


def test_a_kill_between_saving_and_pruning_leaves_nothing_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(name: str, *, resume: bool = False) -> None:
        settings = plan(keep=1)
        train(toy(), Words(), settings, folder=tmp_path / name, seed=1, evaluate=validation, resume=resume)

    run("whole")
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "remove_others", lambda *arguments: None)
        run("killed")
    kept = [contents(tmp_path / name / "checkpoints").keys() for name in ("whole", "killed")]
    assert kept[0] < kept[1]
    run("killed", resume=True)
    assert contents(tmp_path / "killed" / "checkpoints") == contents(tmp_path / "whole" / "checkpoints")


def contents(place: Path) -> dict[str, bytes]:
    """What a file holds, or all files in a folder."""
    return {each.name: each.read_bytes() for each in ([place] if place.is_file() else place.iterdir())}


def test_weights_that_are_not_finite_are_not_saved(tmp_path: Path) -> None:
    class Wild(Observer):
        def stepped(self, update: Update) -> None:
            if update.step == 5:
                torch.nn.init.constant_(model.inner.bias, float("inf"))

    model = toy()
    told = r"after step 5 inner\.bias is not finite, so nothing is saved: .* lower training\.learning_rate \(it is 0\.05\)"
    with pytest.raises(RegardError, match=told):
        train(model, Words(), plan(save=1), folder=tmp_path, seed=1, observers=[Wild()])
    assert [each.step for each in checkpoints.found(tmp_path / "checkpoints")] == [3, 4]


def test_a_rate_beyond_all_numbers_leaves_no_checkpoint_that_is_not_finite(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"after step 1 .* is not finite, so nothing is saved"):
        train(toy(), Words(), plan(save=1, learning_rate=1e39), folder=tmp_path, seed=1)
    assert checkpoints.found(tmp_path / "checkpoints") == []


def test_another_number_of_threads_on_resuming_is_said(tmp_path: Path) -> None:
    train(toy(), Words(), plan(steps=4), folder=tmp_path, seed=1)
    torch.set_num_threads(2)
    try:
        outcome = train(toy(), Words(), plan(), folder=tmp_path, seed=1, resume=True)
    finally:
        torch.set_num_threads(1)
    assert outcome.notices == (
        "resumed with threads 2 instead of 1: it will end with slightly other weights than without the break "
        "(the same bits need --threads 1)",
    )


@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_what_is_not_finite_stops_before_the_update(where: str, tmp_path: Path) -> None:
    class Fragile(Toy):
        calls = 0

        def loss(self, batch: Sequences) -> Loss:
            self.calls += 1
            loss = super().loss(batch)
            if self.calls < 7:
                return loss
            if where == "loss":
                return Loss(loss.total + torch.tensor(float("inf")), loss.count, loss.metrics)
            return Loss(loss.total + torch.sqrt(self.inner.bias[0] * 0.0), loss.count, loss.metrics)

    seen: dict[int, dict[str, torch.Tensor]] = {}

    class Keep(Observer):
        def stepped(self, update: Update) -> None:
            seen[update.step] = copied(model)

    torch.manual_seed(5)
    model, feed = Fragile(), Words()
    with pytest.raises(RegardError, match=r"step 7 .*\(epoch 0, batch 6, samples ") as told:
        train(model, feed, plan(), folder=tmp_path, seed=1, observers=[Keep()])
    assert ", ".join(map(str, feed.order(0)[6])) in str(told.value)
    assert list(seen) == [1, 2, 3, 4, 5, 6]
    assert same(copied(model), seen[6])


def test_evaluation_sees_the_model_as_it_answers(tmp_path: Path) -> None:
    modes = []

    def evaluate(model: nn.Module) -> dict[str, float]:
        modes.append((model.training, torch.is_grad_enabled()))
        return {"loss": 1.0}

    notes = Notebook()
    train(toy(), Words(), plan(steps=10), folder=tmp_path, seed=1, evaluate=evaluate, observers=[notes])
    assert modes == [(False, False)] * 3
    assert [step for step, _ in notes.evaluations] == [4, 8, 10]


def test_samples_are_answered_after_every_evaluation_and_change_no_bit(tmp_path: Path) -> None:
    notes, modes = Notebook(), []

    def answer(model: nn.Module) -> list[AnsweredSample]:
        modes.append(model.training)
        return [AnsweredSample("given", "answer", "reference")]

    plain, shown = (toy(dropout=0.3) for _ in range(2))
    wanted = train(
        plain, Words(), plan(steps=6, evaluate=2), folder=tmp_path / "a", seed=1, evaluate=validation
    )
    found = train(
        shown,
        Words(),
        plan(steps=6, evaluate=2),
        folder=tmp_path / "b",
        seed=1,
        evaluate=validation,
        answer=answer,
        observers=[notes],
    )
    assert [step for step, _ in notes.answers] == [2, 4, 6]
    assert modes == [False] * 3
    assert wanted.weights.keys() == found.weights.keys()
    assert all(torch.equal(wanted.weights[name], found.weights[name]) for name in wanted.weights)


def test_a_sample_that_cannot_be_answered_ends_no_training(tmp_path: Path) -> None:
    notes = Notebook()

    def answer(model: nn.Module) -> list[AnsweredSample]:
        raise RegardError("longer than 8 tokens")

    outcome = train(
        toy(),
        Words(),
        plan(steps=4, evaluate=4),
        folder=tmp_path,
        seed=1,
        evaluate=validation,
        answer=answer,
        observers=[notes],
    )
    assert outcome.step == 4
    assert notes.notices == ["no samples are shown: longer than 8 tokens"]


def test_evaluation_is_of_the_running_mean_and_training_goes_on_from_the_weights(tmp_path: Path) -> None:
    seen, path = [], by_hand(toy(), Words(), 8)

    def evaluate(model: nn.Module) -> dict[str, float]:
        seen.append(torch.cat([weight.flatten().clone() for weight in model.parameters()]))
        return {"loss": 1.0}

    model = toy()
    outcome = train(
        model, Words(), plan(steps=8, ema=0.8, clip=0.3), folder=tmp_path, seed=1, evaluate=evaluate
    )
    powers = torch.tensor([0.8 ** (7 - i) for i in range(8)])
    expected = (torch.stack(path) * powers[:, None]).sum(0) / powers.sum()
    evaluated, last = seen[-2:]  # the last weights are evaluated in the end, to be compared
    torch.testing.assert_close(evaluated, expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(last, path[-1], rtol=0, atol=1e-5)
    assert torch.equal(torch.cat([weight.flatten() for weight in model.parameters()]), evaluated)
    assert outcome.kind == "running mean"


def scripted(values: list[float], name: str = "loss"):  # type: ignore[no-untyped-def]
    left = iter(values)
    return lambda model: {name: next(left)}


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("loss", [3.0, 2.0, 2.5, 2.0, 9.0]),
        ("perplexity", [3.0, 2.0, 2.5, 2.0, 9.0]),
        ("bleu", [3.0, 4.0, float("nan"), 4.0, 9.0]),
    ],
)
def test_patience_ends_a_training_that_no_longer_improves(
    name: str, values: list[float], tmp_path: Path
) -> None:
    kept: dict[int, dict[str, torch.Tensor]] = {}

    class Keep(Observer):
        def stepped(self, update: Update) -> None:
            kept[update.step] = copied(model)

    model = toy()
    outcome = train(
        model,
        Words(),
        plan(evaluate=2, patience=2, best=name),
        folder=tmp_path,
        seed=1,
        evaluate=scripted(values, name),
        observers=[Keep()],
    )
    assert (outcome.step, outcome.kind, outcome.stopped) == (8, "best, of step 4", False)
    assert same(copied(model), kept[4])
    assert not same(kept[4], kept[8])
    assert outcome.metrics == {name: values[1]}
    assert [each.step for each in checkpoints.found(tmp_path / "checkpoints", "best")] == [4]


def test_only_better_weights_are_kept_as_the_best(tmp_path: Path) -> None:
    left, kept = iter([3.0, 2.0, 2.5, 2.0, 1.0, 9.0]), []

    def evaluate(model: nn.Module) -> dict[str, float]:
        kept.append([each.step for each in checkpoints.found(tmp_path / "checkpoints", "best")])
        return {"loss": next(left)}

    train(toy(), Words(), plan(evaluate=2, save=100), folder=tmp_path, seed=1, evaluate=evaluate)
    assert kept == [[], [2], [2, 4], [2, 4], [2, 4], [2, 4, 10]]
    assert [each.step for each in checkpoints.found(tmp_path / "checkpoints", "best")] == [10]


def test_the_mean_of_the_last_checkpoints_is_left_in_the_model(tmp_path: Path) -> None:
    kept: dict[int, dict[str, torch.Tensor]] = {}

    class Keep(Observer):
        def stepped(self, update: Update) -> None:
            kept[update.step] = copied(model)

    model = toy()
    outcome = train(
        model,
        Words(),
        plan(steps=11, save=2, keep=1, last=3),
        folder=tmp_path,
        seed=1,
        observers=[Keep()],
        evaluate=scripted([1.0, 1.0, 1.0, 0.9]),
    )
    for name, weight in model.state_dict().items():
        expected = (kept[8][name] + kept[10][name] + kept[11][name]) / 3
        torch.testing.assert_close(weight, expected)
    assert (outcome.kind, outcome.metrics) == ("mean of 3 checkpoints", {"loss": 0.9})
    assert [each.step for each in checkpoints.found(tmp_path / "checkpoints")] == [8, 10, 11]


def test_a_broken_checkpoint_is_named_and_the_one_before_is_used(tmp_path: Path) -> None:
    whole = train(toy(), Words(), plan(keep=3), folder=tmp_path, seed=1)
    last = checkpoints.found(tmp_path / "checkpoints")[-1]
    content = bytearray(last.path.read_bytes())
    content[-3] ^= 1
    last.path.write_bytes(content)
    notes = Notebook()
    resumed = train(toy(), Words(), plan(keep=3), folder=tmp_path, seed=1, resume=True, observers=[notes])
    assert [update.step for update in notes.updates] == [9, 10, 11, 12]
    assert last.path.name in notes.notices[0]
    assert last.path.name in resumed.notices[0]
    assert same(resumed.weights, whole.weights)
    assert last.intact()


def test_a_run_is_not_trained_over(tmp_path: Path) -> None:
    train(toy(), Words(), plan(), folder=tmp_path, seed=1)
    with pytest.raises(RegardError, match="has checkpoints already"):
        train(toy(), Words(), plan(), folder=tmp_path, seed=1)


def test_parts_that_the_loss_does_not_need_are_left_alone(tmp_path: Path) -> None:
    model = toy(spare=True)
    before = copied(model.spare)
    train(model, Words(), plan(weight_decay=0.1), folder=tmp_path, seed=1)
    assert same(copied(model.spare), before)


def test_bfloat16_is_for_products_alone(tmp_path: Path) -> None:
    seen = set()

    class Looking(Toy):
        def loss(self, batch: Sequences) -> Loss:
            seen.add(self.inner(self.table(batch.tokens)).dtype)
            return super().loss(batch)

    model = Looking()
    train(model, Words(), plan(precision="bfloat16"), folder=tmp_path, seed=1)
    assert seen == {torch.bfloat16}
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"patience": 2}, "nothing is evaluated"),
        ({"last": 2, "ema": 0.9}, "choose one"),
        ({"ema": 1.0}, r"averaging.ema = 1.0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    changes: dict[str, float], message: str, tmp_path: Path
) -> None:
    with pytest.raises(RegardError, match=message):
        train(toy(), Words(), plan(**changes), folder=tmp_path, seed=1)


def test_a_model_without_a_loss_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="Linear has no loss"):
        train(nn.Linear(2, 2), Words(), plan(), folder=tmp_path, seed=1)


def test_an_evaluation_without_what_is_best_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="best = 'bleu', but the evaluation gives loss, accuracy"):
        train(toy(), Words(), plan(best="bleu"), folder=tmp_path, seed=1, evaluate=validation)


def test_what_is_all_frozen_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="nothing to train"):
        train(toy().requires_grad_(False), Words(), plan(), folder=tmp_path, seed=1)


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
