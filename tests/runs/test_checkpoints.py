"""Checkpoints: whole or not there, broken ones known; each is loaded as the run itself is, with the weights of its step."""

import errno
import os
import resource
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from runs.small import numbers, trained
from safetensors.torch import load_file
from training.toys import plan, toy

from regard.errors import RegardError
from regard.runs import checkpoints
from regard.runs.checkpoints import Checkpoint, CheckpointRetention, called
from regard.runs.load import load
from regard.training.state import TrainingState, mean_of


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(numbers(), tmp_path_factory.mktemp("runs") / "numbers")


def test_it_has_the_weights_of_its_step(run: Path) -> None:
    file = next((run / "checkpoints").glob("step-00000002-*"))
    kept = load_file(file)
    for path in (file, run / "checkpoints" / "step-2", run / "checkpoints" / "step-00000002"):
        found = load(path, device="cpu", optimise=False).model.state_dict()
        assert set(found) == {name.removeprefix("weights/") for name in kept if name.startswith("weights/")}
        for name, tensor in found.items():
            assert torch.equal(tensor, kept[f"weights/{name}"])
    last = load(run, device="cpu", optimise=False).model.state_dict()
    assert any(not torch.equal(last[name], tensor) for name, tensor in found.items())


def test_the_best_weights_are_a_checkpoint_too(run: Path) -> None:
    (file,) = (run / "checkpoints").glob("best-*")
    found, kept = load(file, device="cpu", optimise=False).model.state_dict(), load_file(file)
    assert all(torch.equal(tensor, kept[name]) for name, tensor in found.items())


def test_other_paths_are_no_checkpoints(run: Path) -> None:
    for path in (
        run,
        run / "model.safetensors",
        run / "checkpoints",
        "step-2",
        "runs/step-00000002-0123456789abcdef",
    ):
        assert called(path) is None


@pytest.mark.usefixtures("as_a_user")
def test_one_that_is_missing_or_broken_is_named(run: Path, tmp_path: Path) -> None:
    with pytest.raises(
        RegardError, match=r"step-7: there is no such checkpoint; there are step-2, step-4, best-\d"
    ):
        load(run / "checkpoints" / "step-7")
    with pytest.raises(RegardError, match="there are none"):
        load(tmp_path / "checkpoints" / "step-7")
    file = next((run / "checkpoints").glob("step-00000004-*"))
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.raises(RegardError, match="is broken: its contents are not those its name was given for"):
        load(file)


TENSORS = {
    "weights/a": torch.arange(6.0).reshape(2, 3),
    "weights/b": torch.tensor(3),
    "mean/a": torch.ones(2),
}


def written(folder: Path, step: int) -> Checkpoint:
    return checkpoints.write_checkpoint(folder, step, TENSORS, about={"step": step, "best": {"loss": 0.1}})


def test_what_is_written_is_read(tmp_path: Path) -> None:
    checkpoint = written(tmp_path / "new", 7)
    assert checkpoint.intact()
    assert checkpoint.about() == {"step": 7, "best": {"loss": 0.1}}
    assert checkpoints.found(tmp_path / "new") == [checkpoint]
    read = checkpoint.tensors("weights/")
    assert read.keys() == {"a", "b"}
    assert torch.equal(read["a"], TENSORS["weights/a"])
    assert read["b"].dtype == torch.int64
    assert [path.name for path in (tmp_path / "new").iterdir()] == [checkpoint.path.name]


def test_they_are_counted_as_numbers(tmp_path: Path) -> None:
    for step in (100_000_000, 9, 20_000):
        written(tmp_path, step)
    assert [each.step for each in checkpoints.found(tmp_path)] == [9, 20_000, 100_000_000]


@pytest.mark.parametrize("byte", [0, 5, 60, -1])
def test_a_flipped_bit_is_noticed_wherever_it_is(byte: int, tmp_path: Path) -> None:
    checkpoint = written(tmp_path, 7)
    content = bytearray(checkpoint.path.read_bytes())
    content[byte] ^= 4
    checkpoint.path.write_bytes(content)
    assert not checkpoint.intact()


@pytest.mark.parametrize("length", [0, 1, 100, -1])
def test_a_file_cut_short_is_noticed(length: int, tmp_path: Path) -> None:
    checkpoint = written(tmp_path, 7)
    checkpoint.path.write_bytes(checkpoint.path.read_bytes()[:length])
    assert not checkpoint.intact()


def test_the_newest_whole_one_is_used_and_the_broken_ones_are_named(tmp_path: Path) -> None:
    several, broken = [written(tmp_path, step) for step in (2, 4, 6, 8)], []
    for each in several[2:]:
        each.path.write_bytes(each.path.read_bytes()[:-1])
    assert checkpoints.newest_checkpoint(tmp_path, broken=broken.append) == several[1]
    assert broken == [several[3], several[2]]
    said = checkpoints.set_aside(several[3])
    assert several[3].path.name in said
    assert checkpoints.found(tmp_path) == several[:3]


def test_in_an_empty_folder_there_is_no_newest(tmp_path: Path) -> None:
    assert checkpoints.newest_checkpoint(tmp_path / "none", broken=lambda each: None) is None


def test_only_what_is_asked_for_stays(tmp_path: Path) -> None:
    several = [written(tmp_path, step) for step in (2, 4, 6)]
    best = checkpoints.write_checkpoint(tmp_path, 4, TENSORS, about={}, kind="best")
    (tmp_path / "notes.txt").write_text("mine")
    checkpoints.remove_others(tmp_path, {6, 2})
    assert checkpoints.found(tmp_path) == [several[0], several[2]]
    assert checkpoints.found(tmp_path, "best") == [best]
    assert (tmp_path / "notes.txt").exists()


def test_a_disk_that_is_full_leaves_the_earlier_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many systems say only when flushing that there is no room."""
    before = written(tmp_path, 2)

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        RegardError, match=r"step-00000004-.*No space left on device.*earlier checkpoints are as they were"
    ) as told:
        written(tmp_path, 4)
    assert "\n" not in str(told.value)
    assert list(tmp_path.iterdir()) == [before.path]
    assert before.intact()


def test_a_file_that_grows_too_large_leaves_the_earlier_checkpoints(tmp_path: Path) -> None:
    """The system itself refuses, halfway through the file."""
    before = written(tmp_path, 2)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(RegardError, match=r"step-00000004-.*File too large"):
            checkpoints.write_checkpoint(tmp_path, 4, {"a": torch.ones(100_000)}, about={})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == [before.path]


def filled(folder: Path, steps: list[int], **changes: int) -> CheckpointRetention:
    """A retention where the weights of a checkpoint are all its step."""
    settings = plan(**changes)
    retention, state = CheckpointRetention(folder, settings), TrainingState(toy(), settings)
    for step in steps:
        for weight in state.model.parameters():
            torch.nn.init.constant_(weight, step)
        state.progress = replace(state.progress, step=step)
        retention.save(state.progress, state.tensors(), made_with={})
    return retention


def steps_in(folder: Path) -> list[int]:
    return [each.step for each in checkpoints.found(folder)]


def test_the_newest_stay(tmp_path: Path) -> None:
    filled(tmp_path, [4, 8, 12, 16], keep=2)
    assert steps_in(tmp_path) == [12, 16]


def test_averaging_keeps_as_many_as_it_needs(tmp_path: Path) -> None:
    filled(tmp_path, [4, 8, 12, 16], keep=1, last=3)
    assert steps_in(tmp_path) == [8, 12, 16]


def test_one_that_was_saved_because_of_a_signal_is_no_part_of_the_mean(tmp_path: Path) -> None:
    retention = filled(tmp_path, [4, 8, 9, 12], keep=2, last=2)
    assert steps_in(tmp_path) == [8, 9, 12]
    several = retention.averaged(12, [])
    assert len(several) == 2
    assert torch.equal(mean_of(several)["inner.bias"], torch.full((6,), 10.0))


def test_the_last_of_all_is_part_of_the_mean(tmp_path: Path) -> None:
    several = filled(tmp_path, [4, 8, 11], last=2).averaged(11, [])
    assert torch.equal(mean_of(several)["inner.bias"], torch.full((6,), 9.5))
    assert len(several) == 2


def test_a_broken_one_is_left_out_of_the_mean_and_named(tmp_path: Path) -> None:
    retention, notices = filled(tmp_path, [4, 8, 12], last=3), []
    first = checkpoints.found(tmp_path)[0].path
    first.write_bytes(first.read_bytes()[:-1])
    several = retention.averaged(12, notices)
    assert len(several) == 2
    assert torch.equal(mean_of(several)["inner.bias"], torch.full((6,), 10.0))
    assert len(notices) == 1
    assert first.name in notices[0]


def test_the_best_from_before_stays_until_a_checkpoint_knows_of_the_new(tmp_path: Path) -> None:
    settings = plan()
    retention, state = CheckpointRetention(tmp_path, settings), TrainingState(toy(), settings)
    found = []
    for step in (4, 8):
        state.progress = replace(state.progress, step=step, best_step=step, best={"loss": 1 / step})
        retention.save_best(state.progress, {"a": torch.tensor(float(step))})
        found.append([each.step for each in checkpoints.found(tmp_path, "best")])
    assert found == [[4], [4, 8]]
    retention.save(state.progress, state.tensors(), made_with={})
    assert [each.step for each in checkpoints.found(tmp_path, "best")] == [8]
    assert retention.best(8, [])["a"] == 8


def test_best_weights_that_are_gone_are_missed_and_noted(tmp_path: Path) -> None:
    notices: list[str] = []
    assert CheckpointRetention(tmp_path, plan()).best(8, notices) is None
    assert "the best weights, of step 8, are gone" in notices[0]


def test_a_second_checkpoint_of_a_step_replaces_the_first(tmp_path: Path) -> None:
    filled(tmp_path, [4, 8], keep=2)
    state = TrainingState(toy(), plan())
    state.progress = replace(state.progress, step=8, due=True)
    new = CheckpointRetention(tmp_path, plan()).save(
        state.progress, state.tensors(), made_with={"threads": 3}
    )
    assert steps_in(tmp_path) == [4, 8]
    assert checkpoints.found(tmp_path)[-1].path == new
    assert checkpoints.found(tmp_path)[-1].about()["made_with"] == {"threads": 3}


def test_left_overs_are_cleaned_when_a_folder_is_opened(tmp_path: Path) -> None:
    (tmp_path / "step-00000004-0123456789abcdef.safetensors.part").write_bytes(b"half")
    notices: list[str] = []
    assert CheckpointRetention(tmp_path, plan()).open(resume=True, notices=notices) is None
    assert list(tmp_path.iterdir()) == []
    assert notices == ["there is no checkpoint yet: training starts at step 0"]


def test_a_start_at_step_0_because_all_checkpoints_are_broken_is_said(tmp_path: Path) -> None:
    retention, notices = filled(tmp_path, [4, 8]), []
    for each in checkpoints.found(tmp_path):
        each.path.write_bytes(b"broken")
    assert retention.open(resume=True, notices=notices) is None
    assert notices[-1] == "none of the 2 checkpoints is whole: training starts at step 0"
