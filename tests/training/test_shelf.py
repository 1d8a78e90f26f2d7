"""Which checkpoints stay, and what is made of them."""

from dataclasses import replace
from pathlib import Path

import torch
from training.toys import plan, toy

from regard.training import checkpoints
from regard.training.shelf import Shelf
from regard.training.state import State


def filled(folder: Path, steps: list[int], **changes: int) -> Shelf:
    """A shelf where the weights of a checkpoint are all its step."""
    settings = plan(**changes)
    shelf, state = Shelf(folder, settings), State(toy(), settings)
    for step in steps:
        for weight in state.model.parameters():
            torch.nn.init.constant_(weight, step)
        state.standing = replace(state.standing, step=step)
        shelf.save(state, made_with={})
    return shelf


def steps_in(folder: Path) -> list[int]:
    return [each.step for each in checkpoints.found(folder)]


def test_the_newest_stay(tmp_path: Path) -> None:
    filled(tmp_path, [4, 8, 12, 16], keep=2)
    assert steps_in(tmp_path) == [12, 16]


def test_averaging_keeps_as_many_as_it_needs(tmp_path: Path) -> None:
    filled(tmp_path, [4, 8, 12, 16], keep=1, last=3)
    assert steps_in(tmp_path) == [8, 12, 16]


def test_one_that_was_saved_because_of_a_signal_is_no_part_of_the_mean(tmp_path: Path) -> None:
    shelf = filled(tmp_path, [4, 8, 9, 12], keep=2, last=2)
    assert steps_in(tmp_path) == [8, 9, 12]
    weights, count = shelf.mean(12, [])
    assert count == 2
    assert torch.equal(weights["inner.bias"], torch.full((6,), 10.0))


def test_the_last_of_all_is_part_of_the_mean(tmp_path: Path) -> None:
    weights, count = filled(tmp_path, [4, 8, 11], last=2).mean(11, [])
    assert torch.equal(weights["inner.bias"], torch.full((6,), 9.5))
    assert count == 2


def test_a_broken_one_is_left_out_of_the_mean_and_named(tmp_path: Path) -> None:
    shelf, notices = filled(tmp_path, [4, 8, 12], last=3), []
    first = checkpoints.found(tmp_path)[0].path
    first.write_bytes(first.read_bytes()[:-1])
    weights, count = shelf.mean(12, notices)
    assert count == 2
    assert torch.equal(weights["inner.bias"], torch.full((6,), 10.0))
    assert len(notices) == 1
    assert first.name in notices[0]


def test_the_best_from_before_stays_until_a_checkpoint_knows_of_the_new(tmp_path: Path) -> None:
    settings = plan()
    shelf, state = Shelf(tmp_path, settings), State(toy(), settings)
    found = []
    for step in (4, 8):
        state.standing = replace(state.standing, step=step, best_step=step, best={"loss": 1 / step})
        shelf.save_best(state, {"a": torch.tensor(float(step))})
        found.append([each.step for each in checkpoints.found(tmp_path, "best")])
    assert found == [[4], [4, 8]]
    shelf.save(state, made_with={})
    assert [each.step for each in checkpoints.found(tmp_path, "best")] == [8]
    assert shelf.best(8, [])["a"] == 8


def test_best_weights_that_are_gone_are_missed_and_noted(tmp_path: Path) -> None:
    notices: list[str] = []
    assert Shelf(tmp_path, plan()).best(8, notices) is None
    assert "the best weights, of step 8, are gone" in notices[0]


def test_a_second_checkpoint_of_a_step_replaces_the_first(tmp_path: Path) -> None:
    filled(tmp_path, [4, 8], keep=2)
    state = State(toy(), plan())
    state.standing = replace(state.standing, step=8, due=True)
    new = Shelf(tmp_path, plan()).save(state, made_with={"threads": 3})
    assert steps_in(tmp_path) == [4, 8]
    assert checkpoints.found(tmp_path)[-1].path == new
    assert checkpoints.found(tmp_path)[-1].about()["made_with"] == {"threads": 3}


def test_left_overs_are_cleaned_when_a_shelf_is_opened(tmp_path: Path) -> None:
    (tmp_path / "step-00000004-0123456789abcdef.safetensors.part").write_bytes(b"half")
    notices: list[str] = []
    assert Shelf(tmp_path, plan()).open(resume=True, notices=notices) is None
    assert list(tmp_path.iterdir()) == []
    assert notices == ["there is no checkpoint yet: training starts at step 0"]


def test_a_start_at_step_0_because_all_checkpoints_are_broken_is_said(tmp_path: Path) -> None:
    shelf, notices = filled(tmp_path, [4, 8]), []
    for each in checkpoints.found(tmp_path):
        each.path.write_bytes(b"broken")
    assert shelf.open(resume=True, notices=notices) is None
    assert notices[-1] == "none of the 2 checkpoints is whole: training starts at step 0"
