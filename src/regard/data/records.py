"""Records of files (TSV, CSV, TXT, JSONL, Parquet): pairs, texts and labelled texts, and which columns they are in.

Nothing ever shifts a pair: what is dropped is dropped on both sides. In TSV and TXT a record is a line; CSV is in
data/quoted, JSONL and Parquet in data/structured.

A first row is a header, by these rules in this order: columns are asked for by name; it has the usual names (such as
`source` and `target`); all of its fields are names that columns commonly have, which the rows after it are not; some
column holds numbers in every row but the first. Otherwise it is a row like any other. Where a table names its columns
and neither the usual names nor those asked for are among them, reading stops and lists them: columns are never guessed.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import PurePath

from regard.data.text_lines import (
    LONGEST,
    Dealing,
    Flaw,
    LineProblem,
    Parallel,
    Policy,
    Report,
    dealing,
    flaw_of,
    judged,
    matching,
    read_parallel,
)
from regard.errors import RegardError

Column = str | int  # a name, or a number counted from 1
Fields = tuple[str, ...]

# Words of which the names of columns are made: "id", "english", "source_text", "sentence1", "text_en" …
_COUNTS = "id ids idx index no nr num number row line key uid guid uuid"
_CONTENTS = """
source src target tgt trg text texts sentence sentences phrase word words input output question answer prompt response
translation translations original reference ref label labels class category sentiment topic tag tags rating stars score
title body review comment content message description caption captions transcript transcription file files filename
filepath path name image picture photo img audio sound wav recording url link language lang locale license credit
attribution author user date time timestamp split speaker
"""
_LANGUAGES = """
english french german spanish italian portuguese dutch russian chinese japanese korean arabic turkish polish czech
ukrainian greek hebrew hindi swedish danish norwegian finnish hungarian romanian latin en fr de es it pt nl ru zh ja ko
ar tr pl cs uk el he hi sv da fi hu ro la eng fra fre deu ger spa ita por nld rus zho jpn kor
"""
_NUMBERING = {*_COUNTS.split()}
_WORDS = {*_NUMBERING, *_CONTENTS.split(), *_LANGUAGES.split()}
_NUMBER = re.compile(r"[+-]?\d+([.,]\d+)?")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The columns asked for; without a request, the usual names."""

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
        """The indices of the columns, from 0, when they have no names."""
        if self.columns is None:
            return tuple(range(len(self.usual)))
        return tuple(int(column) - 1 for column in self.columns)

    def among(self, path: str, present: Sequence[str]) -> tuple[int, ...]:
        """The indices of the columns in a table whose columns have these names."""
        if self.columns is not None and self.names is None:
            if max(self.numbers) >= len(present):
                raise RegardError(f"{path}: no column {max(self.numbers) + 1}, there are: {listed(present)}")
            return self.numbers
        found = [place(name, present) for name in self.names or self.usual]
        if self.names is None and None in found:
            if len(present) == len(self.usual) == 1:
                return (0,)
            raise RegardError(self.unsaid(path, present))
        for name, at in zip(self.names or self.usual, found, strict=True):
            if at is None:
                raise RegardError(f"{path}: no column {name!r}, there are: {listed(present)}")
        return tuple(at for at in found if at is not None)

    def unsaid(self, path: str, present: Sequence[str]) -> str:
        """The error for columns that were not chosen, with an example of how to."""
        useful = [name for name in present if name.strip() and not set(_words(name)) <= _NUMBERING]
        chosen = ",".join((useful if len(useful) >= len(self.usual) else list(present))[: len(self.usual)])
        setting = f"[{chosen}]" if len(self.usual) > 1 else chosen
        return (
            f"{path}: it has the columns {listed(present)}; say which to take as {' and '.join(self.usual)}, such as "
            f"data.column{'s' * (len(self.usual) > 1)}={setting} (for evaluate: --columns {chosen})"
        )


def is_header(first: Sequence[str], following: Sequence[Sequence[str]], wanted: Wanted) -> bool:
    """Whether the first row of a table names its columns; the rule is at the top of this file."""
    if wanted.names is not None or all(place(name, first) is not None for name in wanted.usual):
        return True
    if _are_names(first) and not (following and all(map(_are_names, following))):
        return True
    fields = [field.strip() for field in first]
    if any(map(_NUMBER.fullmatch, fields)):
        return False
    return any(field and holds_numbers(following, at) for at, field in enumerate(fields))


def holds_numbers(rows: Sequence[Sequence[str]], column: int) -> bool:
    """Whether there are some rows, and numbers in this column of all."""
    values = [row[column].strip() if column < len(row) else "" for row in rows]
    return len(values) > 1 and all(map(_NUMBER.fullmatch, values))


def place(name: str, present: Sequence[str]) -> int | None:
    """The index of a name: as it is, else in other letters or with space around it, else inside a nested column."""
    plain = name.strip().casefold()
    folded = [other.strip().casefold() for other in present]
    for matches in (
        [other == name for other in present],
        [other == plain for other in folded],
        [other.endswith(f".{plain}") for other in folded],
    ):
        found = [at for at, same in enumerate(matches) if same]
        if len(found) > 1:
            raise RegardError(
                f"{len(found)} columns are called {name!r}, among {listed(present)}: give numbers"
            )
        if found:
            return found[0]
    return None


def listed(names: Sequence[str]) -> str:
    """Names for a message, and no more than a line of them."""
    return ", ".join(repr(name[:40]) for name in names[:12]) + (" …" if len(names) > 12 else "")


def _are_names(row: Sequence[str]) -> bool:
    """Whether all fields but the empty ones are names of columns, no two of them the same."""
    filled = [field.strip().casefold() for field in row if field.strip()]
    return len({*filled}) == len(filled) > 0 and all({*_words(field)} <= _WORDS for field in filled)


def _words(field: str) -> list[str]:
    """The words of a name, without a number at their ends: sentence1, source_text."""
    return [word.rstrip("0123456789") or word for word in re.split(r"[\W_]+", field.casefold()) if word]


ROOM = 10  # a line holds several fields, escaped, and fields that are not read
_HEAD = 20  # rows that are looked at to tell a header and the separator
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}

Row = list[str] | Flaw
Note = Callable[[str], None]  # called with how a file was read


def rows_of_table(
    path: str, wanted: Wanted, *, quoted: bool, limit: int, note: Note
) -> Iterator[tuple[int, Fields | Flaw]]:
    """Line numbers, each with the wanted fields or why there are none."""
    from regard.data.quoted import quoted_records, separator_of  # which need the columns that are wanted

    lines = judged(path, limit=ROOM * limit)
    head = [*islice(lines, _HEAD)]
    texts = [line for line in head if isinstance(line, str) and line.strip()]
    separator = separator_of(path, texts, wanted) if quoted else "\t"
    if not quoted and path.lower().removesuffix(".gz").endswith(".txt") and texts and "\t" not in texts[0]:
        raise RegardError(
            f"{path}: no tab in its first line: a .txt has one between its fields; two parallel files are given as "
            "{source: …, target: …}"
        )
    all_lines = chain(head, lines)
    records = quoted_records(path, all_lines, separator, ROOM * limit) if quoted else _split(all_lines)
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
    """The indices of the wanted columns."""
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
    cut = f", separated by {SEPARATORS[separator]}" if separator == ";" else ""
    if header:
        names = " and ".join(repr(first[number]) for number in numbers)
        return f"columns {names}; the first line is a header{cut}"
    columns = " and ".join(str(number + 1) for number in numbers)
    return f"columns {columns} of {len(first)}; the first line is no header{cut}"


def _split(lines: Iterator[str | Flaw]) -> Iterator[tuple[int, Row]]:
    for number, line in enumerate(lines, start=1):
        yield number, line if isinstance(line, Flaw) else line.split("\t")


FORMATS = (".tsv", ".csv", ".txt", ".jsonl", ".parquet")


def format_of(path: str) -> str:
    """The format a file's name speaks of, such as ".tsv"; "" for another."""
    suffixes = [suffix.lower() for suffix in PurePath(path).suffixes]
    packed = suffixes[-1:] == [".gz"]
    last = suffixes[-2:-1] if packed else suffixes[-1:]
    known = last and last[0] in FORMATS and not (packed and last == [".parquet"])
    return last[0] if known else ""


def read_records(
    path: str, wanted: Wanted, *, limit: int, report: Report | None = None
) -> Iterator[tuple[int, Fields | Flaw]]:
    """Line numbers, each with the wanted fields or why there are none. The report notes the columns taken."""

    def note(layout: str) -> None:
        if report is not None:
            report.layouts[path] = layout

    match format_of(path):
        case ".tsv" | ".txt":
            return rows_of_table(path, wanted, quoted=False, limit=limit, note=note)
        case ".csv":
            return rows_of_table(path, wanted, quoted=True, limit=limit, note=note)
        case ".jsonl":
            from regard.data.structured import rows_of_jsonl

            return rows_of_jsonl(path, wanted, limit=limit, note=note)
        case ".parquet":
            from regard.data.structured import texts_of_parquet

            return texts_of_parquet(path, wanted, note)
        case _:
            raise RegardError(
                f"{path}: unknown kind of file; known are {', '.join(FORMATS)}, all but the last also with .gz, "
                "and two parallel text files"
            )


# A path says its format by its suffixes: .tsv, .csv, .txt, .jsonl (each also .gz) or .parquet. It may be a pattern.
Files = str | Sequence[str]
Place = Parallel | str | Sequence[str]


def read_pairs(
    place: Place,
    *,
    columns: Sequence[Column] | None = None,
    policy: Policy = "error",
    report: Report | None = None,
    limit: int = LONGEST,
) -> Iterator[tuple[str, str]]:
    """Sources and targets, in the order of the file, or of several files.

    Columns are names or numbers from 1. Left out, they are `source` and `target` where the file has those names, and the
    first two where it names none. Which first lines are headers: see data/records.
    """
    dealt = dealing("pair", policy, report)
    if isinstance(place, Parallel):
        if columns is not None:
            raise RegardError(f"columns={columns!r}: two parallel files have no columns")
        return read_parallel(place, dealt, limit)
    return _pairs(place, Wanted(usual=("source", "target"), columns=columns), dealt, limit)


def read_labelled(
    place: Files,
    *,
    columns: Sequence[Column] | None = None,
    policy: Policy = "error",
    report: Report | None = None,
    limit: int = LONGEST,
) -> Iterator[tuple[str, str]]:
    """Texts and the label of each (`text` and `label`, or the first two columns of a table without names)."""
    dealt = dealing("sample", policy, report)
    return _pairs(place, Wanted(usual=("text", "label"), columns=columns), dealt, limit)


def read_text(
    place: Files,
    *,
    column: Column | None = None,
    policy: Policy = "error",
    report: Report | None = None,
    limit: int = LONGEST,
) -> Iterator[str]:
    """Texts in one language: the lines of files, or one column of records (`text`, or the first).

    Empty ones are left out and noted: a blank line between texts is no mistake, so no policy stops there.
    """
    wanted = Wanted(usual=("text",), columns=None if column is None else [column])
    dealt = dealing("text", policy, report)
    for path in matching(place):
        table = format_of(path) not in ("", ".txt")
        if column is not None and not table:
            raise RegardError(f"{path}: column={column!r}, but a text file has no columns")
        lines = enumerate(judged(path, limit=limit), start=1)
        records = read_records(path, wanted, limit=limit, report=report) if table else lines
        for number, found in records:
            text = found if isinstance(found, str | Flaw) else found[0]
            flaw = text if isinstance(text, Flaw) else flaw_of(text, limit=limit)
            if flaw is not None and flaw.kind != "empty":
                dealt.drop(path, number, flaw)
            elif flaw is not None or not str(text).strip():
                dealt.report.note(LineProblem(path, number, "empty", "passed over", "empty"))
            else:
                yield str(text)


def _pairs(place: Files, wanted: Wanted, dealt: Dealing, limit: int) -> Iterator[tuple[str, str]]:
    return (
        (first, second) for path in matching(place) for first, second in _sound(path, wanted, dealt, limit)
    )


def _sound(path: str, wanted: Wanted, dealt: Dealing, limit: int) -> Iterator[Fields]:
    """The records in which nothing is wrong. An empty field is."""
    names = wanted.names or wanted.usual
    for number, fields in read_records(path, wanted, limit=limit, report=dealt.report):
        flaw = fields if isinstance(fields, Flaw) else first_flaw(fields, names, limit)
        if flaw is not None:
            dealt.drop(path, number, flaw)
        elif not isinstance(fields, Flaw):
            yield fields


def first_flaw(fields: Fields, names: Sequence[str], limit: int) -> Flaw | None:
    """What is wrong with the first of some fields that cannot be used; an empty one cannot."""
    for text, name in zip(fields, names, strict=True):
        if flaw := flaw_of(text, limit=limit):
            return Flaw(flaw.kind, f"{name}: {flaw.what}")
        if not text.strip():
            return Flaw("empty", f"{name}: empty")
    return None
