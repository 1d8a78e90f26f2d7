"""Atomic writes: after a kill, a power cut or a full disk a file is the old one or the new one, never a part of either."""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from regard.errors import RegardError

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
