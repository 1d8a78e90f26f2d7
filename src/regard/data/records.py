"""Records: rows of TSV, CSV, JSONL or Parquet, of which some columns are wanted. One record a line, always."""

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from regard.data.lines import Flaw, judged
from regard.errors import RegardError

Column = str | int  # a name, or a number counted from 1
Fields = tuple[str, ...]
FORMATS = (".tsv", ".csv", ".jsonl", ".parquet")
_ROOM = 10  # a line holds several fields, escaped, and fields nobody asked for


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The columns asked for, or what they are called where nobody said."""

    usual: Fields  # such as ("source", "target")
    columns: Sequence[Column] | None = None

    def __post_init__(self) -> None:
        if self.columns is None:
            return
        if isinstance(self.columns, str) or len(self.columns) != len(self.usual):
            raise RegardError(
                f"columns={self.columns!r}: give {len(self.usual)}, for {' and '.join(self.usual)}"
            )
        kinds = {type(column) for column in self.columns}
        if kinds - {int, str} or len(kinds) > 1:
            raise RegardError(f"columns={self.columns!r}: give either names or numbers")
        if any(isinstance(column, int) and column < 1 for column in self.columns):
            raise RegardError(f"columns={self.columns!r}: columns are counted from 1")

    @property
    def names(self) -> Fields | None:
        """The columns asked for by name."""
        if self.columns is None or isinstance(self.columns[0], int):
            return None
        return tuple(str(column) for column in self.columns)

    @property
    def numbers(self) -> tuple[int, ...]:
        """Where the columns stand, from 0, when they have no names."""
        if self.columns is None:
            return tuple(range(len(self.usual)))
        return tuple(int(column) - 1 for column in self.columns)

    def among(self, path: str, present: Sequence[str]) -> tuple[int, ...]:
        """Where the columns stand in a table whose columns have these names."""
        names = self.names or (self.usual if self.columns is None and {*self.usual} <= {*present} else None)
        if names is None:
            if max(self.numbers) >= len(present):
                raise RegardError(f"{path}: no column {max(self.numbers) + 1}, there are: {_listed(present)}")
            return self.numbers
        for name in names:
            if name not in present:
                raise RegardError(f"{path}: no column {name!r}, there are: {_listed(present)}")
        return tuple(present.index(name) for name in names)


def format_of(path: str) -> str:
    """The format a file's name speaks of, such as ".tsv"; "" for plain text."""
    suffixes = [suffix.lower() for suffix in PurePath(path).suffixes]
    packed = suffixes[-1:] == [".gz"]
    last = suffixes[-2:-1] if packed else suffixes[-1:]
    known = last and last[0] in FORMATS and not (packed and last == [".parquet"])
    return last[0] if known else ""


def read_records(path: str, wanted: Wanted, *, limit: int) -> Iterator[tuple[int, Fields | Flaw]]:
    """Line numbers, each with the wanted fields or why there are none."""
    match format_of(path):
        case ".tsv":
            return _table(path, wanted, lambda line: line.split("\t"), limit)
        case ".csv":
            return _table(path, wanted, _comma_separated, limit)
        case ".jsonl":
            return _objects(path, wanted, limit)
        case ".parquet":
            return _parquet(path, wanted)
        case _:
            raise RegardError(
                f"{path}: unknown kind of file; known are {', '.join(FORMATS)}, all but the last also with .gz, "
                "and two parallel text files"
            )


def _table(
    path: str, wanted: Wanted, cut: Callable[[str], list[str] | Flaw], limit: int
) -> Iterator[tuple[int, Fields | Flaw]]:
    """Rows of fields. A first line is a header when columns are asked for by name, or when it has the usual names."""
    numbers = wanted.numbers if wanted.names is None else None
    for number, line in enumerate(judged(path, limit=_ROOM * limit), start=1):
        row = line if isinstance(line, Flaw) else cut(line)
        if isinstance(row, Flaw):
            if row.kind == "open quote":  # what follows may be the rest of a field: no line can be trusted
                raise RegardError(
                    f"{path}:{number}: {row.what}, stopped there; write every record on one line"
                )
            if numbers is None:
                raise RegardError(f"{path}:{number}: the header is {row.what}, stopped there")
            yield number, row
        elif number == 1 and (numbers is None or (wanted.columns is None and {*wanted.usual} <= {*row})):
            numbers = wanted.among(path, row)
        elif numbers is not None and max(numbers) < len(row):
            yield number, tuple(row[n] for n in numbers)
        elif numbers is not None:
            yield number, Flaw("missing column", f"no column {max(numbers) + 1}, there are {len(row)}")
    if numbers is None:
        raise RegardError(f"{path}: empty, a header with {_listed(wanted.names or ())} is wanted")


def _comma_separated(line: str) -> list[str] | Flaw:
    try:
        return next(csv.reader([line], strict=True), [""])
    except csv.Error as error:
        if "unexpected end" in str(error):
            return Flaw("open quote", "a quoted field that does not end on its line")
        return Flaw("not CSV", f"not CSV ({str(error).split(' - ')[0]})")


def _objects(path: str, wanted: Wanted, limit: int) -> Iterator[tuple[int, Fields | Flaw]]:
    """JSON objects (columns by name) or arrays (by number), one a line."""
    for number, line in enumerate(judged(path, limit=_ROOM * limit), start=1):
        yield number, line if isinstance(line, Flaw) else _fields_of(line, wanted)


def _fields_of(line: str, wanted: Wanted) -> Fields | Flaw:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        return Flaw("not JSON", f"not JSON ({str(error).splitlines()[0]})")
    if isinstance(value, dict):
        if wanted.columns is not None and wanted.names is None:
            return Flaw(
                "missing column", f"an object has no numbered columns, there are: {_listed([*value])}"
            )
        names = wanted.names or wanted.usual
        for name in names:
            if name not in value:
                return Flaw("missing column", f"no column {name!r}, there are: {_listed([*value])}")
        return _texts([value[name] for name in names], names)
    if isinstance(value, list) and wanted.names is None:
        if max(wanted.numbers) >= len(value):
            return Flaw("missing column", f"no column {max(wanted.numbers) + 1}, there are {len(value)}")
        return _texts([value[n] for n in wanted.numbers], [str(n + 1) for n in wanted.numbers])
    return Flaw("not a record", f"a JSON {type(value).__name__} where an object is wanted")


def _parquet(path: str, wanted: Wanted) -> Iterator[tuple[int, Fields | Flaw]]:
    for number, (names, row) in enumerate(rows_of_parquet(path, wanted, together=1024), start=1):
        yield number, _texts(row, names)


def rows_of_parquet(
    path: str, wanted: Wanted, *, together: int
) -> Iterator[tuple[Sequence[str], Sequence[Any]]]:
    """The names of the columns that are wanted, and their values, row by row; so many are read at once."""
    try:
        from pyarrow import ArrowException, parquet  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError:
        raise RegardError(f"{path}: reading Parquet needs pyarrow: pip install 'regard[parquet]'") from None
    try:
        with parquet.ParquetFile(path) as file:
            present = file.schema_arrow.names
            names = [present[number] for number in wanted.among(path, present)]
            for batch in file.iter_batches(batch_size=together, columns=list(dict.fromkeys(names))):
                for row in zip(*(batch.column(name).to_pylist() for name in names), strict=True):
                    yield names, row
    except FileNotFoundError:
        raise RegardError(f"{path}: no such file") from None
    except (ArrowException, OSError) as error:
        raise RegardError(f"{path}: cannot be read as Parquet ({str(error).splitlines()[0]})") from None


def _texts(values: Sequence[Any], names: Sequence[str]) -> Fields | Flaw:
    """Fields as text. A number or a truth may be a label; a null is an empty text."""
    for value, name in zip(values, names, strict=True):
        if value is not None and not isinstance(value, str | int | float):
            return Flaw("not text", f"column {name!r} holds a {type(value).__name__}, not text")
    return tuple("" if value is None else str(value) for value in values)


def _listed(names: Sequence[str]) -> str:
    """Names for a message, and no more than a line of them."""
    return ", ".join(repr(name[:40]) for name in names[:12]) + (" …" if len(names) > 12 else "")
