"""Only regular files of bounded size are read, and what is unpacked is counted."""

import gzip
import os

import pytest

from regard import RegardError
from regard.data import bounded
from regard.data.bounded import Unpacked, check_growth, opened, read_bytes, read_text


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
    monkeypatch.setattr(bounded, "_check", lambda *_: None)
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
    monkeypatch.setattr(bounded, "PLENTY", 1 << 16)
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
    check_growth("x", 1, bounded.PLENTY)
    check_growth("x", 1 << 20, 100 << 20)
    with pytest.raises(RegardError, match="1 MiB that unpack to"):
        check_growth("x", 1 << 20, (100 << 20) + 1)
