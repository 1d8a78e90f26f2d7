"""Tables of separated fields: .tsv, .csv, and .txt with a tab between fields.

In TSV and TXT a record is a line. In CSV a quoted field may hold separators and line breaks, and fields are separated
by commas, semicolons or tabs: whichever stands in the first line. Where several do, the one that gives the columns
asked for, or else the one that cuts the first rows into equally many fields; if that does not decide, the reading stops.
"""

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice

from regard.data.headers import Fields, Wanted, holds_numbers, is_header, listed, place
from regard.data.lines import Flaw, judged
from regard.errors import RegardError

ROOM = 10  # a line holds several fields, escaped, and fields nobody asked for
_HEAD = 20  # rows that are looked at to tell a header and the separator
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
_QUOTED = re.compile(r'"(?:[^"]|"")*("|$)')

Row = list[str] | Flaw
Note = Callable[[str], None]  # told how a file was read


def rows_of_table(
    path: str, wanted: Wanted, *, quoted: bool, limit: int, note: Note
) -> Iterator[tuple[int, Fields | Flaw]]:
    """Line numbers, each with the wanted fields or why there are none."""
    lines = judged(path, limit=ROOM * limit)
    head = [*islice(lines, _HEAD)]
    texts = [line for line in head if isinstance(line, str) and line.strip()]
    separator = _separator(path, texts, wanted) if quoted else "\t"
    if not quoted and path.lower().removesuffix(".gz").endswith(".txt") and texts and "\t" not in texts[0]:
        raise RegardError(
            f"{path}: no tab in its first line: a .txt has one between its fields; two parallel files are given as "
            "{source: …, target: …}"
        )
    all_lines = chain(head, lines)
    records = _quoted(path, all_lines, separator, ROOM * limit) if quoted else _split(all_lines)
    first = [*islice(records, _HEAD)]
    rows = [row for _, row in first if isinstance(row, list) and any(map(str.strip, row))]
    header = bool(rows) and rows[0] is first[0][1] and is_header(rows[0], rows[1:], wanted)
    numbers = _numbers(path, first, rows, wanted, header=header)
    if rows:
        note(_said(rows[0], numbers, header, separator if quoted else "\t"))
    for number, row in chain(first[1:] if header else first, records):
        yield number, row if isinstance(row, Flaw) else _chosen(row, numbers)


def _numbers(
    path: str, first: Sequence[tuple[int, Row]], rows: Sequence[list[str]], wanted: Wanted, *, header: bool
) -> tuple[int, ...]:
    """Where the wanted columns stand."""
    if header:
        return wanted.among(path, rows[0])
    if wanted.names is not None:
        row = first[0][1] if first else None
        if isinstance(row, Flaw):
            raise RegardError(f"{path}:1: the header is {row.what}, stopped there")
        raise RegardError(f"{path}: empty, a header with {listed(wanted.names)} is wanted")
    if wanted.columns is None and rows and len(rows[0]) > len(wanted.usual):
        for number, name in zip(wanted.numbers, wanted.usual, strict=True):
            if name != "label" and holds_numbers(rows, number):
                others = [str(n + 1) for n in range(len(rows[0])) if not holds_numbers(rows, n)]
                chosen = ",".join(others[: len(wanted.usual)])
                raise RegardError(
                    f"{path}: column {number + 1} of {len(rows[0])} holds numbers alone, as in {listed(rows[0])}; say which "
                    f"columns are {' and '.join(wanted.usual)}, such as data.columns=[{chosen}] (for evaluate: --columns {chosen})"
                )
    return wanted.numbers


def _chosen(row: list[str], numbers: Sequence[int]) -> Fields | Flaw:
    if not any(map(str.strip, row)):
        return Flaw("empty", "empty")
    if max(numbers) >= len(row):
        return Flaw("missing column", f"no column {max(numbers) + 1}, there are {len(row)}")
    return tuple(row[n] for n in numbers)


def _said(first: Sequence[str], numbers: Sequence[int], header: bool, separator: str) -> str:
    cut = f", separated by {_SEPARATORS[separator]}" if separator == ";" else ""
    if header:
        names = " and ".join(repr(first[number]) for number in numbers)
        return f"columns {names}; the first line is a header{cut}"
    columns = " and ".join(str(number + 1) for number in numbers)
    return f"columns {columns} of {len(first)}; the first line is no header{cut}"


def _split(lines: Iterator[str | Flaw]) -> Iterator[tuple[int, Row]]:
    for number, line in enumerate(lines, start=1):
        yield number, line if isinstance(line, Flaw) else line.split("\t")


def _quoted(path: str, lines: Iterator[str | Flaw], separator: str, limit: int) -> Iterator[tuple[int, Row]]:
    """Records of CSV, which may go over several lines; each is known by its first."""
    source = _Lines(path, lines, limit)
    reader = csv.reader(source, delimiter=separator, strict=True)
    while True:
        source.begin()
        try:
            yield source.first, next(reader)
        except StopIteration:
            return
        except _FlawedError as flawed:
            yield source.first, flawed.flaw
        except csv.Error as error:
            if "unexpected end" in str(error) or source.number > source.first:
                raise source.untrusted("does not end properly") from None
            yield source.first, Flaw("not CSV", f"not CSV ({str(error).split(' - ')[0]})")


class _FlawedError(Exception):
    """A line that cannot be used, where a record would begin."""

    def __init__(self, flaw: Flaw) -> None:
        super().__init__(flaw.what)
        self.flaw = flaw


class _Lines(Iterator[str]):
    """Lines for csv to read, counted: where a record begins, and how much of it there is."""

    def __init__(self, path: str, lines: Iterator[str | Flaw], limit: int) -> None:
        self.path, self._lines, self.limit = path, lines, limit
        self.first = self.number = self.size = 0

    def begin(self) -> None:
        """The next line begins a record."""
        self.first, self.size = self.number + 1, 0

    def __next__(self) -> str:
        line = next(self._lines)
        self.number += 1
        if isinstance(line, Flaw):
            if self.number == self.first:
                raise _FlawedError(line)
            raise self.untrusted(f"has a line ({self.number}) that is {line.what}")
        self.size += len(line) + 1
        if self.number > self.first and self.size > self.limit:
            raise self.untrusted(f"does not end within {self.limit:,} characters")
        return line + "\n"

    def untrusted(self, what: str) -> RegardError:
        """What follows may be the rest of a field: no line can be trusted, whatever the policy."""
        return RegardError(
            f"{self.path}:{self.first}: a quoted field that begins here {what}, stopped there; close its quotes, and "
            'write a quote inside it as ""'
        )


def _separator(path: str, lines: Sequence[str], wanted: Wanted) -> str:
    if not lines:
        return ","
    bare = _QUOTED.sub("", lines[0])
    present = [each for each in _SEPARATORS if each in bare]
    if len(present) < 2:
        return present[0] if present else ","
    cut = {each: rows for each in present if (rows := _rows(lines, each))}
    names = wanted.names or wanted.usual
    naming = [each for each, rows in cut.items() if all(place(name, rows[0]) is not None for name in names)]
    even = [each for each, rows in cut.items() if len({len(row) for row in rows}) == 1]
    for some in (naming, even):
        if len(some) == 1:
            return some[0]
    counts = "; ".join(
        f"by {_SEPARATORS[each]} {', '.join(str(len(row)) for row in rows[:5])}" for each, rows in cut.items()
    )
    raise RegardError(
        f"{path}: what separates its fields? Cut {counts} fields a row: quote the fields that hold a separator, or write "
        "it as .tsv"
    )


def _rows(lines: Sequence[str], separator: str) -> list[list[str]]:
    try:
        return [row for row in csv.reader(lines, delimiter=separator) if row]
    except csv.Error:
        return []
