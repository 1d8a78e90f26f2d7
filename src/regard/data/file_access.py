"""Files: read within bounds, written whole, and a folder locked for one writer.

Only regular files of bounded size are read: a pipe would be waited for, a device may never end, and a packed file may
unpack to anything. So what a path leads to is checked before it is opened, and what is unpacked is counted.

Writes are atomic: after a kill, a power cut or a full disk a file is the old one or the new one, never a part of either.

A lock is held by the system (flock) on the file `.lock`, so that it is free again as soon as its process has ended, in
whatever way: a file that a kill or a power cut left behind locks nothing. What the file says, which process on which
machine since when, is for people. A training of several processes holds one lock, in the first of them.
"""

import errno
import gzip
import json
import os
import re
import socket
import stat
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from os import PathLike
from pathlib import Path
from typing import IO

from regard.errors import RegardError

try:
    import fcntl
except ImportError:  # a system without flock
    fcntl = None  # type: ignore[assignment]

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


@contextmanager
def unpacking(path: PathName) -> Iterator[Unpacked]:
    """A regular file to be read piece by piece, unpacked where it is gzip; broken ones are refused by name."""
    try:
        with opened(path) as file:
            yield Unpacked(path, file)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise RegardError(f"{path}: broken gzip file ({error}): fetch or pack it again") from None
    except OSError as error:
        raise RegardError(f"{path}: cannot be read ({error.strerror or error})") from None


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


_UNFINISHED = re.compile(r".+\.(\d+|safetensors)\.part")
_PIECE = 1 << 20


def write_atomically(path: str | os.PathLike[str], contents: str | bytes, *, lost: str = "") -> bool:
    """Write a file to a temporary name, sync it, rename it, sync its folder; whether there was anything to write.

    A file that holds these contents already is not touched. A link stays a link: the file it names is replaced. What
    is no regular file (/dev/stdout, a pipe) is written to directly. `lost` ends the message of a write that fails.
    """
    told, path = path, Path(os.path.realpath(path))
    data = contents.encode() if isinstance(contents, str) else contents
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        status = _status(path)
        if status is not None and not stat.S_ISREG(status.st_mode):
            path.write_bytes(data)
            return True
        if status is not None and status.st_size == len(data) and _holds(path, data):
            return False
        with unfinished.open("wb") as file:
            file.write(data)
            file.flush()
            if status is not None:
                os.chmod(unfinished, stat.S_IMODE(status.st_mode))
            os.fsync(file.fileno())
        os.replace(unfinished, path)
        sync_folder(path.parent)
    except BaseException as error:
        with suppress(OSError):
            unfinished.unlink()
        if isinstance(error, OSError):
            why = error.strerror or error
            raise RegardError(f"{told} cannot be written ({why}){lost and ': ' + lost}") from None
        raise
    return True


def unfinished_in(folder: Path) -> Iterator[Path]:
    """What killed processes had begun to write in a folder."""
    return (path for path in folder.glob("*.part") if _UNFINISHED.fullmatch(path.name))


def tidy(folder: Path) -> None:
    """Remove what killed processes had begun to write in a folder that no process writes to now."""
    for path in unfinished_in(folder):
        path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Have the names of a folder on the disk too, where a system allows to ask for it."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _holds(path: Path, data: bytes) -> bool:
    whole = memoryview(data)
    with path.open("rb") as file:
        return all(file.read(_PIECE) == whole[at : at + _PIECE] for at in range(0, len(data), _PIECE))


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


LOCK = ".lock"
_HELD = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder that is there, or say in one line who holds it.

    Over NFS it is seen by all machines that mount the folder with locking (the default); where a file system has no
    locks at all, there is none.
    """
    path = folder / LOCK
    handle = _taken(path)
    try:
        try:
            os.ftruncate(handle, 0)
            os.write(handle, json.dumps(_self()).encode())
        except OSError as error:  # a full disk is found here, before data are read and libraries trip over it
            raise _unwritable(path, error) from None
        yield
    finally:
        with suppress(OSError):
            path.unlink()  # while it is held: a process that opened it before finds that it is gone, and takes the new one
        os.close(handle)


def _taken(path: Path) -> int:
    """The lock's file, open and locked."""
    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise _unwritable(path, error) from None
        try:
            _lock(handle, path)
            if _is_at(handle, path):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _lock(handle: int, path: Path) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD:
            raise RegardError(
                f"{path.parent} is being trained already, {_holder(handle)}: wait until it has ended, or stop it"
            ) from None


def _is_at(handle: int, path: Path) -> bool:
    """Whether the file that was locked is still the one of that name: its last holder may have removed it since."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _unwritable(path: Path, error: OSError) -> RegardError:
    return RegardError(f"{path.parent} cannot be written to ({error.strerror})")


def _self() -> dict[str, object]:
    return {
        "process": os.getpid(),
        "machine": socket.gethostname(),
        "since": time.strftime("%Y-%m-%d %H:%M:%S"),
    }


def _holder(handle: int) -> str:
    try:
        said = json.loads(os.pread(handle, 1000, 0))
        return f"by process {int(said['process'])} on {str(said['machine'])[:80]} since {str(said['since'])[:20]}"
    except (OSError, ValueError, KeyError, TypeError):
        return "by another process"


def writable_folder(out: Path) -> Path:
    """The folder given as --out, made if it is missing; refused if nothing can be written there."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=out).close()
    except OSError as error:
        raise RegardError(
            f"--out {out} cannot be written to ({error.strerror}): choose another folder"
        ) from error
    return out
