"""Files from outside, read within bounds: regular files only, of bounded size, and JSON and YAML of bounded depth.

A pipe would be waited for, a device may never end, and a packed file may unpack to anything. So what a path leads to
is checked before it is opened, how much is read is bounded, and what is unpacked is counted.

JSON and YAML are read strictly: plain values of bounded depth, count and size, and no key twice. Of YAML only what
recipes need is read: mappings, lists, text, numbers, true, false and null. Aliases and merge keys are refused, because
a few lines of them can expand to more than any memory holds. Dates are text.
"""

import gzip
import json
import math
import os
import re
import stat
from collections import Counter
from io import BufferedReader
from os import PathLike
from typing import IO, Any, NoReturn

import yaml

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


DEEPEST = 64  # mappings and lists inside each other
MAX_VALUES = 1_000_000  # of JSON
MAX_YAML = 1 << 16  # characters; the longest recipe that is shipped has three thousand
LARGEST = 2**63 - 1  # of a whole number, as tensors hold them

_HALF = "a lone surrogate, which is half a character"
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_SCALARS = ("null", "bool", "int", "float", "str", "timestamp")


class _RefusedError(Exception):
    """What is wrong with a text, without its place."""


def parse_json(text: str, where: object, *, finite: bool = True, values: int = MAX_VALUES) -> Any:
    """The value of a JSON text. `finite=False` lets NaN and Infinity pass, as Python writes them."""
    try:
        # Every value but the first comes after one of these. Counted before anything is built.
        if text.count(",") + text.count("[") + text.count("{") > values:
            raise _RefusedError(f"more than {values:,} values")
        found = json.loads(
            text,
            object_pairs_hook=_mapping,
            parse_int=_whole,
            parse_float=_finite if finite else float,
            parse_constant=_no_number if finite else float,
        )
        _check_depth(found)
        if _SURROGATE.search(text):
            json.dumps(found, ensure_ascii=False).encode()  # pairs of them are characters, and fine
        return found
    except UnicodeEncodeError:
        raise RegardError(f"{where} is not JSON: {_HALF}") from None
    except (json.JSONDecodeError, _RefusedError) as error:
        raise RegardError(f"{where} is not JSON: {_oneline(error)}") from None
    except RecursionError:
        raise RegardError(f"{where} is not JSON: {_too_deep()}") from None


def parse_settings(text: str, where: object, *, finite: bool = True) -> dict[str, Any]:
    """The mapping of a JSON text."""
    values = parse_json(text, where, finite=finite)
    if not isinstance(values, dict):
        raise RegardError(f"{where} does not hold settings, but {type(values).__name__}")
    return values


def parse_yaml(text: str, where: object) -> Any:
    """The value of a YAML text."""
    if len(text) > MAX_YAML:
        raise RegardError(f"{where}: not YAML: {len(text):,} characters, more than {MAX_YAML:,}")
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        return None if node is None else loader.value_of(node)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise RegardError(f"{where}{line}: not YAML: {_oneline(getattr(error, 'problem', error))}") from None


class _Loader(yaml.SafeLoader):
    """PyYAML up to the nodes. What they mean is said here, for its own constructors know no bounds."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """The next node, not too deep."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            self._refuse("an alias (*), which is not read: write it out", event)
        self._depth += 1
        if self._depth > DEEPEST:
            self._refuse(_too_deep(), event)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def value_of(self, node: Any) -> Any:
        """A node as plain values."""
        kind = node.tag.removeprefix("tag:yaml.org,2002:")
        if isinstance(node, yaml.MappingNode) and kind == "map":
            found: dict[Any, Any] = {}
            for key, value in node.value:
                if key.tag.endswith(":merge"):
                    self._refuse("a merge key (<<), which is not read: write it out", key)
                if not isinstance(key, yaml.ScalarNode):
                    self._refuse("a key that is no text", key)
                name = self.value_of(key)
                if name in found:
                    self._refuse(f"{name!r} is there twice", key)
                found[name] = self.value_of(value)
            return found
        if isinstance(node, yaml.SequenceNode) and kind == "seq":
            return [self.value_of(each) for each in node.value]
        if isinstance(node, yaml.ScalarNode) and kind in _SCALARS:
            return self._scalar(node, kind)
        self._refuse(f"{node.tag[:80]!r} is not read here", node)

    def _scalar(self, node: yaml.ScalarNode, kind: str) -> Any:
        if kind in ("str", "timestamp"):
            if any("\ud800" <= letter <= "\udfff" for letter in node.value):
                self._refuse(_HALF, node)
            return node.value
        try:
            value: Any = {
                "null": self.construct_yaml_null,
                "bool": self.construct_yaml_bool,
                "int": self.construct_yaml_int,
                "float": self.construct_yaml_float,
            }[kind](node)
        except (
            ValueError,
            KeyError,
            IndexError,
            OverflowError,
        ):  # as of !!int "many", or ten thousand digits
            self._refuse(f"{node.value[:40]!r} is no {kind} that can be read", node)
        if kind == "int" and not -LARGEST <= value <= LARGEST:
            self._refuse(f"{node.value[:40]!r} is too large a number", node)
        if kind == "float" and not math.isfinite(value):
            self._refuse(f"{node.value[:40]!r} is not a finite number", node)
        return value

    def _refuse(self, problem: str, at: Any) -> NoReturn:
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=at.start_mark)


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise _RefusedError(f"{twice[:80]!r} is there twice")
    return found


def _whole(digits: str) -> int:
    if len(digits) > 20 or abs(int(digits)) > LARGEST:
        raise _RefusedError(f"{digits[:40]} is too large a number")
    return int(digits)


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        _no_number(digits)
    return value


def _no_number(digits: str) -> NoReturn:
    raise _RefusedError(f"{digits[:40]} is not a finite number")


def _check_depth(value: Any) -> None:
    """Level by level, because what is too deep is also too deep for recursion."""
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [part for each in level for part in _parts(each) if isinstance(part, dict | list)]
        if not level:
            return
    raise _RefusedError(_too_deep())


def _parts(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _too_deep() -> str:
    return f"more than {DEEPEST} mappings or lists inside each other"


def _oneline(error: object) -> str:
    return " ".join(str(error).split())
