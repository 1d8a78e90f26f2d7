"""Records with named fields: JSONL and Parquet."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from regard.data.given import mapping_once
from regard.data.records import ROOM, Fields, Note, Wanted, listed, place
from regard.data.text_lines import Flaw, judged
from regard.errors import RegardError


def rows_of_jsonl(
    path: str, wanted: Wanted, *, limit: int, note: Note
) -> Iterator[tuple[int, Fields | Flaw]]:
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
        return json.loads(line, object_pairs_hook=mapping_once)
    except (ValueError, RecursionError) as error:
        return Flaw("not JSON", f"not JSON ({str(error).splitlines()[0]})")


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


def texts_of_parquet(path: str, wanted: Wanted, note: Note) -> Iterator[tuple[int, Fields | Flaw]]:
    """Row numbers, each with the wanted fields as text or why there are none."""
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
