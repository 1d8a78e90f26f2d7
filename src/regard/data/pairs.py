"""Pairs, texts and labelled texts from files. Nothing ever shifts a pair: what is dropped is dropped on both sides."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from regard.data.headers import Column, Fields, Wanted
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
)
from regard.data.matching import matching
from regard.data.records import format_of, read_records
from regard.errors import RegardError


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
    first two where it names none. Which first lines are headers: see data/headers.
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
                dealt.report.note(Problem(path, number, "empty", "passed over", "empty"))
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
    dealt.report.note(Problem(longer, min(counts) + 1, what, done, "unequal line counts"), times=over)
