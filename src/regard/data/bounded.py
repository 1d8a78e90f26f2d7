"""Files from outside, opened with care: regular files only, of bounded size, and of a run none outside its folder.

A pipe would be waited for, a device may never end, and a packed file may unpack to anything. So what a path leads to
is looked at before it is opened, how much is read is bounded, and what is unpacked is counted.
"""

import gzip
import os
import stat
from io import BufferedReader
from os import PathLike
from typing import IO

from regard.errors import RegardError

PathName = str | PathLike[str]

SMALL = 1 << 20  # bytes of a file of settings
PLENTY = 16 << 20  # bytes that any packed file may unpack to
RATIO = 100  # times its size that a packed file may unpack to beyond that; text and sound reach about ten

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def opened(path: PathName, *, most: int | None = None, within: PathName | None = None) -> BufferedReader:
    """A regular file of at most so many bytes, for reading; `within` a folder that no link may lead out of."""
    try:
        if within is not None:
            _stay(path, within)
        _check(path, os.stat(path), most)  # before opening: opening a device can already do something
        handle = os.open(path, _FLAGS)
        try:
            _check(path, os.fstat(handle), most)  # and after: it may have been exchanged in between
            return os.fdopen(handle, "rb")
        except BaseException:
            os.close(handle)
            raise
    except FileNotFoundError:
        raise RegardError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        if isinstance(error, RegardError):
            raise
        raise RegardError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None


def read_bytes(path: PathName, *, most: int = SMALL, within: PathName | None = None) -> bytes:
    """The bytes of a regular file, if there are not more than that."""
    with opened(path, most=most, within=within) as file:
        try:
            data = file.read(most + 1)
        except OSError as error:
            raise RegardError(f"{path}: cannot be read ({error.strerror or error})") from None
    if len(data) > most:  # it said less when it was opened
        raise RegardError(f"{path}: more than {_size(most)}")
    return data


def read_text(path: PathName, *, most: int = SMALL, within: PathName | None = None) -> str:
    """The text of a regular file in UTF-8, with or without a byte order mark."""
    try:
        return read_bytes(path, most=most, within=within).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RegardError(f"{path}: not UTF-8 text (at byte {error.start + 1})") from None


def check_growth(path: PathName, packed: int, unpacked: int) -> None:
    """Refuse what unpacks to far more than its size: it was made to fill memory."""
    if grows_too_much(packed, unpacked):
        raise RegardError(
            f"{path}: {_size(packed)} that unpack to {_size(unpacked)} or more: at most {_size(PLENTY)}, or {RATIO} "
            "times its size, are read"
        )


def grows_too_much(packed: int, unpacked: int) -> bool:
    """Whether so few bytes may not become so many."""
    return unpacked > max(PLENTY, RATIO * packed)


class Unpacked:
    """The contents of a gzip file, or of a plain one, read piece by piece and counted."""

    def __init__(self, path: PathName, file: BufferedReader) -> None:
        self._path, self._packed = path, os.fstat(file.fileno()).st_size
        zipped = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        self._file: IO[bytes] = gzip.GzipFile(fileobj=file) if zipped else file  # type: ignore[assignment]
        self._zipped, self.count = zipped, 0

    def read(self, size: int) -> bytes:
        """At most so many bytes more."""
        data = self._file.read(size)
        self.count += len(data)
        if self._zipped:
            check_growth(self._path, self._packed, self.count)
        return data


def _stay(path: PathName, folder: PathName) -> None:
    real, home = os.path.realpath(path), os.path.realpath(folder)
    if os.path.commonpath([real, home]) != home:
        raise RegardError(f"{path}: a link that leads out of {folder}, to {real}: put the file itself there")


def _check(path: PathName, status: os.stat_result, most: int | None) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise RegardError(f"{path}: this is a folder, give a file")
    if not stat.S_ISREG(status.st_mode):
        raise RegardError(f"{path}: not a regular file")
    if most is not None and status.st_size > most:
        raise RegardError(f"{path}: {_size(status.st_size)}, more than {_size(most)}")


def _size(count: int) -> str:
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if count >= 1 << shift:
            return f"{count / (1 << shift):.4g} {unit}"
    return f"{count} bytes"
