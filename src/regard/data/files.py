"""Files with a word about each: one folder a class, or a table of (file, label) or (file, text).

Every file in a class's folder is a sample, whatever its name ends with; names that begin with a dot are passed over.
A table names files relative to its own folder, and none outside of it.
"""

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from regard.data.records import Column, Wanted, first_flaw, read_records
from regard.data.text_lines import LONGEST, Dealing, Flaw, Policy, Report, dealing, matching
from regard.errors import RegardError

MAX_BYTES = 512 << 20  # of one file: a picture of 50 megapixels, not compressed at all, takes less

Value = TypeVar("Value")


@dataclass(frozen=True)
class Told:
    """A file, and its label: a class, a caption or a transcript."""

    path: str
    text: str


def read_folder(folder: str, *, policy: Policy = "error", report: Report | None = None) -> list[Told]:
    """Files in folders named for their classes, sorted by class and then by name. The order is the same everywhere."""
    dealt = dealing("file", policy, report)
    found = []
    for name in _names(folder):
        inside = os.path.join(folder, name)
        if not os.path.isdir(inside):
            dealt.drop(inside, 0, Flaw("no class", "a file where a folder for each class is wanted"))
            continue
        for file in _names(inside):
            path = os.path.join(inside, file)
            if os.path.isdir(path):
                dealt.drop(path, 0, Flaw("no sample", "a folder inside the folder of a class"))
            else:
                found.append(Told(path, name))
    if not found:
        raise RegardError(f"{folder}: no files in it; give a folder with one folder for each class")
    return found


def read_table(
    table: str,
    *,
    usual: tuple[str, str] = ("file", "text"),
    columns: Sequence[Column] | None = None,
    policy: Policy = "error",
    report: Report | None = None,
    limit: int = LONGEST,
) -> list[Told]:
    """Files and what a table, or several, tell about each; columns as in `read_pairs`. They are not opened yet."""
    dealt = dealing("file", policy, report)
    found = []
    wanted = Wanted(usual=usual, columns=columns)
    for path in matching(table):
        folder = os.path.dirname(path)
        for line, fields in read_records(path, wanted, limit=limit, report=report):
            told = fields if isinstance(fields, Flaw) else _told(folder, *fields, limit=limit)
            if isinstance(told, Flaw):
                dealt.drop(path, line, told)
            else:
                found.append(told)
    if not found:
        raise RegardError(f"{table}: names no file{dealt.report.reasons}")
    return found


def only_sound(
    told: Sequence[Told],
    judge: Callable[[bytes], Value | Flaw],
    *,
    policy: Policy = "error",
    report: Report | None = None,
) -> list[Told]:
    """The files that can be read: each is read once to see, so that training later meets no surprise."""
    kept = [each for each, _ in read_each(told, judge, policy=policy, report=report)]
    if not kept:
        raise RegardError(
            f"none of {len(told)} files can be read, the first is {told[0].path if told else '—'}"
            f"{report.reasons if report else ''}"
        )
    return kept


def read_each(
    told: Sequence[Told],
    judge: Callable[[bytes], Value | Flaw],
    *,
    policy: Policy = "error",
    report: Report | None = None,
) -> Iterator[tuple[Told, Value]]:
    """Every file that can be read with what is in it, one after another; the others dealt with by the policy."""
    dealt: Dealing = dealing("file", policy, report)
    for each in told:
        data = bytes_of(each.path)
        value = data if isinstance(data, Flaw) else judge(data)
        if isinstance(value, Flaw):
            dealt.drop(each.path, 0, value)
        else:
            yield each, value


def read_one(path: str, judge: Callable[[bytes], Value | Flaw]) -> Value:
    """What is in a file."""
    data = bytes_of(path)
    value = data if isinstance(data, Flaw) else judge(data)
    if isinstance(value, Flaw):
        raise RegardError(f"{path}: {value.what}")
    return value


def bytes_of(path: str) -> bytes | Flaw:
    """The bytes of a file, or why there are none. What is no file, such as a pipe, would be waited for: never opened."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            return Flaw("not a file", "not a file")
        if status.st_size > MAX_BYTES:
            return Flaw("too large", f"{status.st_size >> 20} MiB, more than {MAX_BYTES >> 20}")
        data = Path(path).read_bytes()
    except FileNotFoundError:
        return Flaw("missing", "no such file")
    except (OSError, ValueError) as error:
        return Flaw("unreadable", f"cannot be read ({getattr(error, 'strerror', None) or error})")
    return data or Flaw("empty", "empty")


def _names(folder: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError as error:
        raise RegardError(f"{folder}: this folder cannot be read ({error.strerror or error})") from None


def _told(folder: str, file: str, text: str, *, limit: int) -> Told | Flaw:
    if flaw := first_flaw((file, text), ("file", "text"), limit):
        return flaw
    if os.path.isabs(file) or os.path.normpath(file).split(os.sep)[0] == os.pardir:
        return Flaw("outside", f"{file} is not inside the table's folder")
    return Told(os.path.join(folder, file), text)
