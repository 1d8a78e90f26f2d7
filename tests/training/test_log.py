"""The log is that of one run."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from torch import nn

from regard.training.log import Log
from regard.training.observers import Outcome, Update


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
