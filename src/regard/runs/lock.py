"""The lock of a run: one process at a time writes into a run folder.

It is held by the system (flock) on the file `.lock`, so that it is free again as soon as its process has ended, in
whatever way: a file that a kill or a power cut left behind locks nothing. What the file says, which process on which
machine since when, is for people. A training of several processes holds one lock, in the first of them.
"""

import errno
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from regard.errors import RegardError

try:
    import fcntl
except ImportError:  # a system without flock
    fcntl = None  # type: ignore[assignment]

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
