"""Observers are told, all of them, and closed whatever happens."""

from pathlib import Path

import pytest
from torch import nn
from training.toys import Notebook, Words, plan, toy, validation

from regard.errors import RegardError
from regard.training.loop import train
from regard.training.observers import Means, Observer, Update, told


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
    with pytest.raises(RegardError), told([notes]):
        raise RegardError("so")
    assert notes.closed


def test_means_are_over_tokens_not_over_updates() -> None:
    means = Means()
    for total, count, right in [(10.0, 10, 5.0), (90.0, 30, 15.0)]:
        means.add(
            Update(step=1, epoch=0, total=total, count=count, metrics={"accuracy": right}, rate=0.1, norm=1.0)
        )
    assert means.per_token() == {"loss": 2.5, "accuracy": 0.5}
