"""CSV: records with quoted fields, which may hold separators and line breaks.

Fields are separated by commas, semicolons or tabs: whichever the first line has. Where it has several, the one that
gives the columns asked for, or else the one that cuts the first rows into equally many fields; if that does not
decide, reading stops.
"""

import csv
import re
from collections.abc import Iterator, Sequence

from regard.data.records import SEPARATORS, Row, Wanted, place
from regard.data.text_lines import Flaw
from regard.errors import RegardError

_QUOTED = re.compile(r'"(?:[^"]|"")*("|$)')


def quoted_records(
    path: str, lines: Iterator[str | Flaw], separator: str, limit: int
) -> Iterator[tuple[int, Row]]:
    """Records of CSV, which may go over several lines; each is known by its first."""
    source = _CsvLines(path, lines, limit)
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


class _CsvLines(Iterator[str]):
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


def separator_of(path: str, lines: Sequence[str], wanted: Wanted) -> str:
    """What separates the fields, by the first lines."""
    if not lines:
        return ","
    bare = _QUOTED.sub("", lines[0])
    present = [each for each in SEPARATORS if each in bare]
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
        f"by {SEPARATORS[each]} {', '.join(str(len(row)) for row in rows[:5])}" for each, rows in cut.items()
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
