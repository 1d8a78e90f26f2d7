"""Pairs, texts and labelled texts from files. Nothing ever shifts a pair: what is dropped is dropped on both sides."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from regard.data.lines import (
    LONGEST,
    Dealing,
    Flaw,
    Policy,
    Problem,
    Report,
    dealing,
    flaw_of,
    judged,
    read_lines,
)
from regard.data.records import Column, Fields, Wanted, format_of, read_records
from regard.errors import RegardError


@dataclass(frozen=True)
class Parallel:
    """Two text files, line n of one being line n of the other in another language."""

    source: str
    target: str


Place = (
    Parallel | str
)  # a path says its format by its suffixes: .tsv, .csv, .jsonl (each also .gz) or .parquet


def read_pairs(
    place: Place,
    *,
    columns: Sequence[Column] | None = None,
    policy: Policy = "error",
    report: Report | None = None,
    limit: int = LONGEST,
) -> Iterator[tuple[str, str]]:
    """Sources and targets, in the order of the file.

    Columns are names (TSV and CSV then begin with a header) or numbers from 1. Left out, they are `source` and
    `target` where the file has those names, and else the first two.
    """
    dealt = dealing("pair", policy, report)
    if isinstance(place, Parallel):
        if columns is not None:
            raise RegardError(f"columns={columns!r}: two parallel files have no columns")
        return _parallel(place, dealt, limit)
    return _pairs(place, Wanted(usual=("source", "target"), columns=columns), dealt, limit)


def read_labelled(
    path: str,
    *,
    columns: Sequence[Column] | None = None,
    policy: Policy = "error",
    report: Report | None = None,
    limit: int = LONGEST,
) -> Iterator[tuple[str, str]]:
    """Texts and the label of each (`text` and `label`, or the first two columns)."""
    dealt = dealing("sample", policy, report)
    return _pairs(path, Wanted(usual=("text", "label"), columns=columns), dealt, limit)


def read_text(
    path: str,
    *,
    column: Column | None = None,
    policy: Policy = "error",
    report: Report | None = None,
    limit: int = LONGEST,
) -> Iterator[str]:
    """Texts in one language: the lines of a file, empty ones too; or one column of records (`text`, or the first)."""
    if format_of(path) == "":
        if column is not None:
            raise RegardError(f"{path}: column={column!r}, but a text file has no columns")
        return read_lines(path, policy=policy, report=report, limit=limit)
    wanted = Wanted(usual=("text",), columns=None if column is None else [column])
    return (text for (text,) in _sound(path, wanted, dealing("text", policy, report), limit))


def _pairs(path: str, wanted: Wanted, dealt: Dealing, limit: int) -> Iterator[tuple[str, str]]:
    return ((first, second) for first, second in _sound(path, wanted, dealt, limit))


def _sound(path: str, wanted: Wanted, dealt: Dealing, limit: int) -> Iterator[Fields]:
    """The records in which nothing is wrong. An empty field is, unless it is all there is."""
    names = wanted.names or wanted.usual
    for number, fields in read_records(path, wanted, limit=limit):
        flaw = fields if isinstance(fields, Flaw) else _first_flaw(fields, names, limit)
        if flaw is not None:
            dealt.drop(path, number, flaw)
        elif not isinstance(fields, Flaw):
            yield fields


def _first_flaw(fields: Fields, names: Sequence[str], limit: int) -> Flaw | None:
    for text, name in zip(fields, names, strict=True):
        if flaw := flaw_of(text, limit=limit):
            return Flaw(flaw.kind, f"{name}: {flaw.what}")
        if len(fields) > 1 and not text.strip():
            return Flaw("empty", f"{name}: empty")
    return None


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
    dealt.report.note(Problem(longer, min(counts) + 1, what, done, "unequal line counts"))
