"""One process at a time writes into a run folder, and the lock is free once that process has ended, also by a kill."""

import os
import resource
import signal
from pathlib import Path

import pytest
from runs.small import numbers, trained

import regard.training.experiment as experiment
from regard.errors import RegardError
from regard.runs.folder import RunFolder
from regard.runs.lock import LOCK, locked
from regard.training.experiment import begin, resume


def other(folder: Path) -> int:
    """A process that holds the lock until it is killed; its id."""
    heard, said = os.pipe()
    child = os.fork()
    if not child:
        with locked(folder):
            os.write(said, b"!")
            signal.pause()
    os.read(heard, 1)
    os.close(heard)
    os.close(said)
    return child


def killed(child: int) -> None:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_the_second_is_told_who_is_first(tmp_path: Path) -> None:
    child = other(tmp_path)
    try:
        said = rf"{tmp_path} is being trained already, by process {child} on .+ since 20\d\d-.+: wait"
        with pytest.raises(RegardError, match=said), locked(tmp_path):
            pass
    finally:
        killed(child)


def test_a_process_that_was_killed_keeps_nobody_out(tmp_path: Path) -> None:
    killed(other(tmp_path))
    assert (tmp_path / LOCK).exists()
    with locked(tmp_path):
        pass
    assert not (tmp_path / LOCK).exists()


def test_a_full_disk_is_said_and_keeps_nobody_out(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with (
            pytest.raises(RegardError, match=rf"{tmp_path} cannot be written to .File too large"),
            locked(tmp_path),
        ):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not (tmp_path / LOCK).exists()
    with locked(tmp_path):
        pass


def test_it_is_held_against_the_same_process_too(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(RegardError, match="is being trained already"), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


def test_a_holder_that_could_not_write_its_name_is_another_process(tmp_path: Path) -> None:
    for said in (b"", b"\xff", b"[]", b'{"process": "x"}'):
        with locked(tmp_path):
            (tmp_path / LOCK).write_bytes(said)
            with pytest.raises(RegardError, match="already, by another process: wait"), locked(tmp_path):
                pass


def test_a_lock_that_was_removed_while_it_was_waited_for_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its holder removes the file: a second process may have opened it just before, and would lock nothing."""
    import fcntl

    flock, removed = fcntl.flock, []

    def late(handle: int, how: int) -> None:
        if not removed:
            (tmp_path / LOCK).unlink()
            removed.append(True)
        flock(handle, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with locked(tmp_path), pytest.raises(RegardError, match="already"), locked(tmp_path):
        pass


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    return trained(numbers(), tmp_path / "run")


def test_neither_overwriting_nor_resuming_disturbs_a_training(finished: Path) -> None:
    before = {file: file.read_bytes() for file in finished.rglob("*") if file.is_file()}
    with locked(finished):
        for second in (
            lambda: begin(numbers(), finished, device="cpu"),
            lambda: begin(numbers(), finished, device="cpu", overwrite=True),
            lambda: resume(finished, device="cpu"),
        ):
            with pytest.raises(RegardError, match="run is being trained already"):
                second()
        assert {file: file.read_bytes() for file in before} == before


def test_a_second_training_into_a_folder_is_refused_before_the_first_has_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare, refused = experiment.prepare, []

    def second_in_between(*arguments: object, **options: object) -> object:
        with pytest.raises(RegardError, match="run is being trained already") as error:
            begin(numbers(seed=3), tmp_path / "run", device="cpu")
        refused.append(error)
        return prepare(*arguments, **options)

    monkeypatch.setattr(experiment, "prepare", second_in_between)
    begin(numbers(seed=2), tmp_path / "run", device="cpu")
    assert refused
    assert RunFolder(tmp_path / "run").load_recipe().seed == 2
    assert not (tmp_path / "run" / LOCK).exists()


def test_a_folder_of_somebody_else_gets_no_lock(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(RegardError, match="not empty and is no run"):
        begin(numbers(), tmp_path, device="cpu", overwrite=True)
    assert os.listdir(tmp_path) == ["thesis.tex"]
