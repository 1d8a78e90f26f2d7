"""Checkpoints: whole or not there, and the broken ones known."""

import errno
import os
import resource
from pathlib import Path

import pytest
import torch

from regard.errors import RegardError
from regard.training import checkpoints
from regard.training.checkpoints import Checkpoint

TENSORS = {
    "weights/a": torch.arange(6.0).reshape(2, 3),
    "weights/b": torch.tensor(3),
    "mean/a": torch.ones(2),
}


def written(folder: Path, step: int) -> Checkpoint:
    return checkpoints.write(folder, step, TENSORS, about={"step": step, "best": {"loss": 0.1}})


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
    assert checkpoints.newest(tmp_path, broken=broken.append) == several[1]
    assert broken == [several[3], several[2]]
    said = checkpoints.set_aside(several[3])
    assert several[3].path.name in said
    assert checkpoints.found(tmp_path) == several[:3]


def test_in_an_empty_folder_there_is_no_newest(tmp_path: Path) -> None:
    assert checkpoints.newest(tmp_path / "none", broken=lambda each: None) is None


def test_only_what_is_asked_for_stays(tmp_path: Path) -> None:
    several = [written(tmp_path, step) for step in (2, 4, 6)]
    best = checkpoints.write(tmp_path, 4, TENSORS, about={}, kind="best")
    (tmp_path / "notes.txt").write_text("mine")
    checkpoints.prune(tmp_path, {6, 2})
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
            checkpoints.write(tmp_path, 4, {"a": torch.ones(100_000)}, about={})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == [before.path]
