"""TensorBoard, where it is installed, and what is said where it is not."""

import sys
from pathlib import Path

import pytest
from training.toys import Words, plan, toy, validation

from regard.errors import RegardError
from regard.training.loop import train
from regard.training.tensorboard import TensorBoard


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
