"""Observers are told, all of them, and closed whatever happens."""

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console
from torch import nn
from training.toys import Notebook, Words, plan, toy, validation

from regard.errors import RegardError
from regard.runs.tasks.prepared import AnsweredSample
from regard.training.loop import train
from regard.training.observers import (
    Log,
    Means,
    Observer,
    Outcome,
    Progress,
    TensorBoard,
    Update,
    observed_by,
)


class Recorder(Observer):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def started(self, model: nn.Module, *, step: int, steps: int) -> None:
        self.heard.append(f"started {step}/{steps}")

    def stepping(self, step: int) -> None:
        self.heard.append(f"stepping {step}")

    def stepped(self, update: Update) -> None:
        self.heard.append(f"stepped {update.step}")

    def evaluated(self, step: int, metrics: object) -> None:
        self.heard.append(f"evaluated {step}")

    def saving(self, step: int) -> None:
        self.heard.append(f"saving {step}")

    def saved(self, path: Path) -> None:
        assert path.exists()
        self.heard.append(f"saved {int(path.name[5:13])}")

    def finished(self, outcome: object) -> None:
        self.heard.append("finished")

    def close(self) -> None:
        self.heard.append("closed")


def test_everything_is_told_in_order(tmp_path: Path) -> None:
    one, other = Recorder(), Recorder()
    settings = plan(steps=3, evaluate=2, save=2)
    train(toy(), Words(), settings, folder=tmp_path, seed=1, evaluate=validation, observers=[one, other])
    assert one.heard == [
        "started 0/3",
        *("stepping 1", "stepped 1"),
        *("stepping 2", "stepped 2", "evaluated 2", "saving 2", "saved 2"),
        *("stepping 3", "stepped 3", "evaluated 3", "saving 3", "saved 3"),
        *("finished", "closed"),
    ]
    assert other.heard == one.heard


def test_one_that_overrides_nothing_will_do(tmp_path: Path) -> None:
    class Silent(Observer):
        pass

    train(toy(), Words(), plan(steps=2), folder=tmp_path, seed=1, observers=[Silent()])


def test_they_are_closed_after_an_error() -> None:
    notes = Notebook()
    with pytest.raises(RegardError), observed_by([notes]):
        raise RegardError("so")
    assert notes.closed


def test_means_are_over_tokens_not_over_updates() -> None:
    means = Means()
    for total, count, right in [(10.0, 10, 5.0), (90.0, 30, 15.0)]:
        means.add(
            Update(step=1, epoch=0, total=total, count=count, metrics={"accuracy": right}, rate=0.1, norm=1.0)
        )
    assert means.per_token() == {"loss": 2.5, "accuracy": 0.5}


def update(step: int, *, total: float = 6.0) -> Update:
    return Update(
        step=step, epoch=step // 4, total=total, count=4, metrics={"accuracy": 3.0}, rate=0.1, norm=2.0
    )


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def ticking() -> Iterator[float]:
    now = 100.0
    while True:
        yield now
        now += 1.0


def log(path: Path, *, after: int = 0) -> Log:
    clock = ticking()
    made = Log(path, clock=lambda: next(clock))
    made.started(nn.Identity(), step=after, steps=9)
    return made


def test_an_update_is_a_line_of_means(tmp_path: Path) -> None:
    one = log(tmp_path / "run" / "log.jsonl")
    one.stepped(update(1))
    one.evaluated(1, {"loss": 1.25, "bleu": float("nan")})
    assert lines(one.path) == [
        {
            "event": "update",
            "step": 1,
            "epoch": 0,
            "loss": 1.5,
            "metrics": {"accuracy": 0.75},
            "tokens": 4,
            "rate": 0.1,
            "norm": 2.0,
            "seconds": 1.0,
        },
        {"event": "evaluation", "step": 1, "metrics": {"loss": 1.25, "bleu": None}, "seconds": 2.0},
    ]
    one.close()


def test_a_line_can_be_read_before_the_log_is_closed_and_ends_with_it(tmp_path: Path) -> None:
    one = log(tmp_path / "log.jsonl")
    for step in (1, 2):
        one.stepped(update(step))
        assert len(lines(one.path)) == step
    one.saving(2)
    outcome = Outcome(step=2, weights={}, kind="last", metrics={"loss": 1.0}, stopped=False)
    one.finished(outcome)
    one.close()
    assert lines(one.path)[-1]["event"] == "end"
    assert lines(one.path)[-1]["metrics"] == {"loss": 1.0}


@pytest.mark.parametrize("torn", ["", '{"event": "upd', '{"event": "update", "step": 3}'])
def test_on_resuming_later_lines_are_cut_and_time_goes_on(torn: str, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    one = log(path)
    for step in range(1, 6):
        one.stepped(update(step))
    one.close()
    with path.open("a") as file:
        file.write(torn)
    again = log(path, after=3)
    again.stepped(update(4, total=8.0))
    again.close()
    assert [line["step"] for line in lines(path)] == [1, 2, 3, 4]
    assert lines(path)[-1]["loss"] == 2.0
    assert [line["seconds"] for line in lines(path)] == [1.0, 2.0, 3.0, 4.0]


def test_a_finished_run_that_is_resumed_ends_once(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    outcome = Outcome(step=1, weights={}, kind="last", metrics={}, stopped=False)
    for after in (0, 1, 1):
        one = log(path, after=after)
        if not after:
            one.stepped(update(1))
        one.finished(outcome)
        one.close()
    assert [line["event"] for line in lines(path)] == ["update", "end"]


def test_a_stopped_run_leaves_no_trace_of_it(tmp_path: Path) -> None:
    one = log(tmp_path / "log.jsonl")
    one.finished(Outcome(step=1, weights={}, kind="last", metrics={}, stopped=True))
    one.close()
    assert one.path.read_text() == ""


def test_a_new_run_begins_a_new_log(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text("something else\n")
    log(tmp_path / "log.jsonl").close()
    assert (tmp_path / "log.jsonl").read_text() == ""


def progressed(step: int, total: float, count: int) -> Update:
    return Update(step=step, epoch=0, total=total, count=count, metrics={}, rate=1e-3, norm=1.0)


def shown(*, terminal: bool, every: float) -> str:
    out, now = io.StringIO(), [50.0]
    console = Console(file=out, force_terminal=terminal, width=200, legacy_windows=False)
    progress = Progress(console, every=every, clock=lambda: now[0])
    progress.started(nn.Identity(), step=4, steps=10)
    for step, total, count in [(5, 10.0, 10), (6, 90.0, 30), (7, 30.0, 10), (8, 30.0, 10)]:
        now[0] += 1.0
        progress.stepped(progressed(step, total, count))
    progress.evaluated(8, {"loss": 1.23456, "bleu": 31.4})
    progress.answered(
        8, [AnsweredSample("one  two", "un\ndeux", "un deux"), AnsweredSample("x" * 99, "", "[y]")]
    )
    progress.noticed("[step] is broken")
    progress.finished(Outcome(step=8, weights={}, kind="last", metrics={}, stopped=True))
    progress.close()
    return out.getvalue()


def test_elsewhere_a_plain_line_now_and_then_with_means_over_tokens() -> None:
    assert shown(terminal=False, every=2.0).splitlines() == [
        "step 6/10  loss 2.500  rate 1.0e-03  20 tokens/s  0:00:04 left",
        "step 8/10  loss 3.000  rate 1.0e-03  10 tokens/s  0:00:02 left",
        "step 8: loss 1.235  bleu 31.4",
        "  one two → un deux (reference: un deux)",
        f"  {'x' * 69}… →  (reference: [y])",
        "[step] is broken",
        "stopped after step 8, saved: resume to go on",
    ]


def test_in_a_terminal_a_bar() -> None:
    text = shown(terminal=True, every=2.0)
    for part in ("8/10", "loss 3.000", "10 tokens/s", "step 8: loss 1.235", "━"):
        assert part in text
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1  # the cursor was hidden, and came back


def test_what_is_counted_in_samples_is_called_so() -> None:
    out = io.StringIO()
    progress = Progress(
        Console(file=out, width=200), every=0.0, clock=iter(range(9)).__next__, unit="samples"
    )
    progress.started(nn.Identity(), step=0, steps=2)
    progress.stepped(progressed(1, 10.0, 5))
    assert "  5 samples/s  " in out.getvalue()


def test_without_it_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tensorboard", "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(RegardError, match=r"pip install 'regard\[tensorboard\]'"):
        TensorBoard(tmp_path)


def test_curves_are_written(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = TensorBoard(tmp_path / "board", every=4)
    train(toy(), Words(), plan(), folder=tmp_path, seed=1, evaluate=validation, observers=[board])
    events = EventAccumulator(str(tmp_path / "board"))
    events.Reload()
    assert set(events.Tags()["scalars"]) == {
        *(f"train/{name}" for name in ("loss", "accuracy", "rate", "norm")),
        *(f"evaluation/{name}" for name in ("loss", "accuracy")),
    }
    assert [event.step for event in events.Scalars("train/loss")] == [4, 8, 12]
    assert [event.step for event in events.Scalars("evaluation/loss")] == [4, 8, 12]
