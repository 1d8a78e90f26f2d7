"""Files are read within bounds, written whole, and a folder has one writer."""

import errno
import gzip
import os
import resource
import signal
import stat
import threading
from pathlib import Path

import pytest
from runs.small import numbers, trained

import regard.training.experiment as experiment
from regard import RegardError
from regard.data import file_access
from regard.data.file_access import (
    LOCK,
    Unpacked,
    check_growth,
    locked,
    opened,
    read_bytes,
    read_text,
    tidy,
    unfinished_in,
    write_atomically,
)
from regard.runs.folder import RunFolder
from regard.training.experiment import begin, resume


def test_a_file_comes_back_whole(tmp_path) -> None:
    (tmp_path / "a").write_bytes("\ufeffé\n".encode())
    assert read_bytes(tmp_path / "a", most=6) == "\ufeffé\n".encode()
    assert read_text(tmp_path / "a", most=6) == "é\n"


def test_a_larger_file_is_refused_before_it_is_read(tmp_path) -> None:
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(RegardError, match=r"hole: 1024 GiB, more than 1 MiB$"):
        read_bytes(tmp_path / "hole")


def test_a_file_that_grows_after_it_was_opened_is_read_no_further(tmp_path, monkeypatch) -> None:
    (tmp_path / "a").write_bytes(b"x" * 100)
    monkeypatch.setattr(file_access, "_check", lambda *_: None)
    with pytest.raises(RegardError, match="more than 10 bytes"):
        read_bytes(tmp_path / "a", most=10)


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda path: os.mkfifo(path), "not a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
        (lambda path: path.mkdir(), "this is a folder"),
        (lambda path: path.symlink_to(path), "cannot be read"),
        (lambda path: None, "no such file"),
    ],
    ids=["fifo", "device", "folder", "loop", "nothing"],
)
def test_what_is_no_regular_file_is_never_waited_for(make, what, tmp_path) -> None:
    make(tmp_path / "it")
    with pytest.raises(RegardError, match=what):
        opened(tmp_path / "it")


def test_odd_names_are_refused_in_one_line(tmp_path) -> None:
    for name in ("a\0b", "\ud800", "x" * 5000):
        with pytest.raises(RegardError, match="cannot be read"):
            opened(os.path.join(tmp_path, name))


def test_a_link_may_not_lead_out_of_the_folder(tmp_path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (tmp_path / "secret").write_text("s")
    (run / "own").write_text("o")
    (run / "out").symlink_to(tmp_path / "secret")
    (run / "inside").symlink_to("own")
    (tmp_path / "again").symlink_to(run)
    assert read_text(run / "inside", within=run) == "o"
    assert read_text(tmp_path / "again" / "own", within=tmp_path / "again") == "o"
    for path in (run / "out", run / ".." / "secret"):
        with pytest.raises(RegardError, match="a link that leads out of"):
            read_text(path, within=run)


def test_text_that_is_none_is_named(tmp_path) -> None:
    (tmp_path / "a").write_bytes(b"ab\xff")
    with pytest.raises(RegardError, match=r"a: not UTF-8 text \(at byte 3\)"):
        read_text(tmp_path / "a")


def test_unpacking_stops_where_it_grows_too_much(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(file_access, "PLENTY", 1 << 16)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(bytes(1 << 24)))
    with opened(tmp_path / "bomb.gz") as file:
        unpacked = Unpacked(tmp_path / "bomb.gz", file)
        with pytest.raises(RegardError, match=r"KiB that unpack to .* or more: at most 64 KiB, or 100 times"):
            list(iter(lambda: unpacked.read(1 << 12), b""))
    assert unpacked.count < 1 << 22, "a quarter of what is in it is never unpacked"


def test_plain_files_and_modest_ones_are_read_to_the_end(tmp_path) -> None:
    data = os.urandom(70_001)
    for name, packed in (("a", data), ("a.gz", gzip.compress(data))):
        (tmp_path / name).write_bytes(packed)
        with opened(tmp_path / name) as file:
            unpacked = Unpacked(name, file)
            assert b"".join(iter(lambda reader=unpacked: reader.read(999), b"")) == data
            assert unpacked.count == 70_001


def test_a_little_may_unpack_to_plenty() -> None:
    check_growth("x", 1, file_access.PLENTY)
    check_growth("x", 1 << 20, 100 << 20)
    with pytest.raises(RegardError, match="1 MiB that unpack to"):
        check_growth("x", 1 << 20, (100 << 20) + 1)


def test_what_is_written_is_there_and_nothing_else(tmp_path: Path) -> None:
    assert write_atomically(tmp_path / "a.json", "é\n")
    assert (tmp_path / "a.json").read_bytes() == b"\xc3\xa9\n"
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_name_is_there_only_after_its_contents_are_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(handle: int) -> None:
        happened.append("folder" if os.path.isdir(f"/proc/self/fd/{handle}") else "file")
        fsync(handle)

    def noted_replace(a: Path, b: Path) -> None:
        happened.append("name")
        replace(a, b)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    write_atomically(tmp_path / "a", b"x")
    assert happened == ["file", "name", "folder"]


@pytest.mark.parametrize("size", [0, 1, 7, (1 << 20) - 1, 1 << 20, (1 << 20) + 3])
def test_a_file_that_need_not_change_is_not_written(tmp_path: Path, size: int) -> None:
    path, data = tmp_path / "a", bytes(range(251)) * (size // 251 + 1)
    write_atomically(path, data[:size])
    before = path.stat()
    assert not write_atomically(path, data[:size])
    after = path.stat()  # but for the time of the last reading, which comparing changes
    assert (after.st_ino, after.st_mtime_ns, after.st_ctime_ns) == (
        before.st_ino,
        before.st_mtime_ns,
        before.st_ctime_ns,
    )
    if size:
        assert write_atomically(path, data[: size - 1] + b"\xff")
        assert path.read_bytes() == data[: size - 1] + b"\xff"


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_disk_that_is_full_leaves_the_file_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Many systems say only when flushing that there is no room."""
    path = tmp_path / "a.yaml"
    write_atomically(path, "before")

    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, full)
    with pytest.raises(
        RegardError, match=r"a\.yaml cannot be written \(No space left on device\): make room$"
    ):
        write_atomically(path, "after", lost="make room")
    assert os.listdir(tmp_path) == ["a.yaml"]
    assert path.read_text() == "before"


def test_a_system_that_refuses_every_byte_leaves_the_file_before(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_atomically(path, "before")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        assert not write_atomically(path, "before")
        with pytest.raises(RegardError, match=r"a cannot be written \(File too large\)$"):
            write_atomically(path, "after")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (os.listdir(tmp_path), path.read_text()) == (["a"], "before")


@pytest.mark.parametrize("name", ["none/a", "file/a"])
def test_a_place_that_is_none_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RegardError, match=f"{name} cannot be written"):
        write_atomically(tmp_path / name, "x")


def test_a_link_stays_a_link_and_a_mode_stays_a_mode(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("before")
    (tmp_path / "real").chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    write_atomically(tmp_path / "link", "after")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "after"
    assert stat.S_IMODE((tmp_path / "real").stat().st_mode) == 0o640


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe, heard = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: heard.append(pipe.read_bytes()))
    reader.start()
    write_atomically(pipe, "x")
    reader.join()
    assert heard == [b"x"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_leftovers_of_a_kill_are_known_by_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def die(*arguments: object) -> None:
        raise Killed

    monkeypatch.setattr(os, "replace", die)
    monkeypatch.setattr(Path, "unlink", die)
    with pytest.raises(Killed):
        write_atomically(tmp_path / "a.json", "x")
    monkeypatch.undo()
    (tmp_path / "film.part").write_text("of the user's own")
    (tmp_path / "b.safetensors.part").write_text("of an earlier version")
    assert len(list(unfinished_in(tmp_path))) == 2
    tidy(tmp_path)
    assert os.listdir(tmp_path) == ["film.part"]


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
