"""Records of files (TSV, CSV, TXT, JSONL, Parquet): pairs, texts and labelled texts.

Nothing ever shifts a pair: what is dropped is dropped on both sides.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import PurePath
from typing import Any

from regard.data.delimited import ROOM, Column, Fields, Note, Wanted, listed, place, rows_of_table
from regard.data.text_lines import (
    LONGEST,
    Dealing,
    Flaw,
    LineProblem,
    Policy,
    Report,
    dealing,
    flaw_of,
    judged,
    matching,
)
from regard.errors import RegardError

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
            return _objects(path, wanted, limit, note)
        case ".parquet":
            return _parquet(path, wanted, note)
        case _:
            raise RegardError(
                f"{path}: unknown kind of file; known are {', '.join(FORMATS)}, all but the last also with .gz, "
                "and two parallel text files"
            )


def _objects(path: str, wanted: Wanted, limit: int, note: Note) -> Iterator[tuple[int, Fields | Flaw]]:
    """JSON objects (columns by name, also inside one another: `translation.en`) or arrays (by number), one a line."""
    said = False
    for number, line in enumerate(judged(path, limit=ROOM * limit), start=1):
        value = line if isinstance(line, Flaw) else _parsed(line)
        if isinstance(value, Flaw):
            yield number, value
            continue
        if not said and isinstance(value, dict | list):
            _say(path, value, wanted, note)
            said = True
        yield number, _fields_of(value, wanted)


def _say(path: str, value: Any, wanted: Wanted, note: Note) -> None:
    """Note which columns are taken, by the first record; stop if they were not chosen."""
    if isinstance(value, list):
        note(f"columns {' and '.join(str(number + 1) for number in wanted.numbers)} of arrays")
        return
    if wanted.columns is None:
        wanted.among(path, [*_flat(value)])
    note(f"columns {' and '.join(map(repr, wanted.names or wanted.usual))} of objects")


def _parsed(line: str) -> Any:
    if not line.strip():
        return Flaw("empty", "empty")
    try:
        return json.loads(line, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        return Flaw("not JSON", f"not JSON ({str(error).splitlines()[0]})")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name[:40]!r} is there twice")
        found[name] = value
    return found


def _flat(value: Mapping[str, Any]) -> dict[str, Any]:
    """An object with what is in its objects beside it, as `outer.inner`."""
    found: dict[str, Any] = {}
    for name, each in value.items():
        found |= (
            {f"{name}.{part}": one for part, one in each.items()} if isinstance(each, dict) else {name: each}
        )
    return found


def _fields_of(value: Any, wanted: Wanted) -> Fields | Flaw:
    if isinstance(value, dict):
        if wanted.columns is not None and wanted.names is None:
            return Flaw("missing column", f"an object has no numbered columns, there are: {listed([*value])}")
        names = wanted.names or wanted.usual
        if not all(name in value for name in names):
            value = _flat(value)
            present = [*value]
            try:
                places = [place(name, present) for name in names]
            except RegardError as error:
                return Flaw("missing column", str(error))
            for name, at in zip(names, places, strict=True):
                if at is None:
                    return Flaw("missing column", f"no column {name!r}, there are: {listed(present)}")
            return _texts([value[present[at]] for at in places if at is not None], names)
        return _texts([value[name] for name in names], names)
    if isinstance(value, list) and wanted.names is None:
        if max(wanted.numbers) >= len(value):
            return Flaw("missing column", f"no column {max(wanted.numbers) + 1}, there are {len(value)}")
        return _texts([value[n] for n in wanted.numbers], [str(n + 1) for n in wanted.numbers])
    return Flaw("not a record", f"a JSON {type(value).__name__} where an object is wanted")


def _parquet(path: str, wanted: Wanted, note: Note) -> Iterator[tuple[int, Fields | Flaw]]:
    for number, (names, row) in enumerate(rows_of_parquet(path, wanted, together=1024), start=1):
        if number == 1:
            note(f"columns {' and '.join(map(repr, names))}")
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
            present = _columns_of(file.schema_arrow)
            names = [present[number] for number in wanted.among(path, present)]
            for batch in file.iter_batches(batch_size=together, columns=list(dict.fromkeys(names))):
                for row in zip(*(_values(batch, name) for name in names), strict=True):
                    yield names, row
    except FileNotFoundError:
        raise RegardError(f"{path}: no such file") from None
    except (ArrowException, OSError) as error:
        raise RegardError(f"{path}: cannot be read as Parquet ({str(error).splitlines()[0]})") from None


def _columns_of(schema: Any) -> list[str]:
    """The names of all columns; of a structure without bytes in it, which is no picture, those inside: `outer.inner`."""
    names = []
    for field in schema:
        inside = [field.type.field(n).name for n in range(field.type.num_fields)] if _is_struct(field) else []
        names += (
            [field.name] if not inside or "bytes" in inside else [f"{field.name}.{name}" for name in inside]
        )
    return names


def _is_struct(field: Any) -> bool:
    return str(field.type).startswith("struct<") and "." not in field.name


def _values(batch: Any, name: str) -> list[Any]:
    if name in batch.schema.names:
        return list(batch.column(name).to_pylist())
    outer, _, inner = name.partition(".")
    return [None if each is None else each[inner] for each in batch.column(outer).to_pylist()]


def _texts(values: Sequence[Any], names: Sequence[str]) -> Fields | Flaw:
    """Fields as text. A number or a truth may be a label; a null is an empty text."""
    for value, name in zip(values, names, strict=True):
        if value is not None and not isinstance(value, str | int | float):
            return Flaw("not text", f"column {name!r} holds a {type(value).__name__}, not text")
    return tuple("" if value is None else str(value) for value in values)


@dataclass(frozen=True)
class Parallel:
    """Two text files, line n of one being line n of the other in another language; or two patterns for several each."""

    source: str
    target: str


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
    first two where it names none. Which first lines are headers: see data/delimited.
    """
    dealt = dealing("pair", policy, report)
    if isinstance(place, Parallel):
        if columns is not None:
            raise RegardError(f"columns={columns!r}: two parallel files have no columns")
        return _parallel_files(place, dealt, limit)
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
        flaw = fields if isinstance(fields, Flaw) else _first_flaw(fields, names, limit)
        if flaw is not None:
            dealt.drop(path, number, flaw)
        elif not isinstance(fields, Flaw):
            yield fields


def _first_flaw(fields: Fields, names: Sequence[str], limit: int) -> Flaw | None:
    for text, name in zip(fields, names, strict=True):
        if flaw := flaw_of(text, limit=limit):
            return Flaw(flaw.kind, f"{name}: {flaw.what}")
        if not text.strip():
            return Flaw("empty", f"{name}: empty")
    return None


def _parallel_files(place: Parallel, dealt: Dealing, limit: int) -> Iterator[tuple[str, str]]:
    sources, targets = matching(place.source), matching(place.target)
    if len(sources) != len(targets):
        raise RegardError(
            f"{place.source} stands for {len(sources)} files and {place.target} for {len(targets)}: they are not parallel"
        )
    for source, target in zip(sources, targets, strict=True):
        dealt.report.layouts[source] = f"line n is line n of {target}"
        yield from _parallel(Parallel(source, target), dealt, limit)


def _parallel(place: Parallel, dealt: Dealing, limit: int) -> Iterator[tuple[str, str]]:
    files = (place.source, place.target)
    counts = [0, 0]
    for sides in zip_longest(judged(place.source, limit=limit), judged(place.target, limit=limit)):
        counts = [count + (side is not None) for count, side in zip(counts, sides, strict=True)]
        if counts[0] != counts[1]:
            continue  # only the longer one goes on: it is counted to its end
        source, target = (_filled(side) for side in sides)
        if isinstance(source, str) and isinstance(target, str):
            yield source, target
            continue
        if isinstance(source, Flaw):
            dealt.drop(place.source, counts[0], source)
        elif isinstance(target, Flaw):
            dealt.drop(place.target, counts[1], target)
    if counts[0] != counts[1]:
        _unequal(files, counts, dealt)


def _filled(side: str | Flaw | None) -> str | Flaw | None:
    return Flaw("empty", "empty") if isinstance(side, str) and not side.strip() else side


def _unequal(files: tuple[str, str], counts: Sequence[int], dealt: Dealing) -> None:
    what = f"{files[0]} has {counts[0]} lines and {files[1]} has {counts[1]}"
    if dealt.policy == "error":
        raise RegardError(f'{what}: they are not parallel; the policy "skip" would drop what is over')
    longer, over = files[counts[1] > counts[0]], abs(counts[0] - counts[1])
    done = f"the last {over} of {longer} dropped"
    dealt.report.note(LineProblem(longer, min(counts) + 1, what, done, "unequal line counts"), times=over)
