"""A file is written whole or not at all, whatever ends the process, and a file that need not change is left alone."""

import errno
import os
import resource
import stat
import threading
from pathlib import Path

import pytest

from regard.data.atomic import tidy, unfinished_in, write_atomically
from regard.errors import RegardError


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
