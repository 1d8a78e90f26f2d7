"""Text files as lines, and what is wrong with a line, reported by file and number.

A line ends at "\\n" and nowhere else: a form feed, U+2028 or a lone "\\r" is part of it. One "\\r" at its end and one
byte order mark at the beginning of the file are dropped. Files are read in pieces, gzip or plain, never whole. Several
files are read as one: a list of them, or a pattern such as `part-*.tsv`, in alphabetical order.
"""

import glob
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Literal

from regard.data.file_access import unpacking
from regard.data.given import HALF_CHARACTER
from regard.errors import RegardError

Policy = Literal["error", "skip"]  # what happens to a line that is no text: stop there, or drop it and say so

LONGEST = 10_000  # characters of a line
_PIECE = 1 << 20  # bytes read at once
_ENDLESS = 64 << 20  # bytes of one line after which no end of it is looked for
_OTHERS = {
    b"BZh": "compressed with bzip2: unpack it",
    b"\xfd7zXZ": "compressed with xz: unpack it",
    b"\x28\xb5\x2f\xfd": "compressed with zstd: unpack it",
    b"PK\x03\x04": "a zip archive: unpack it",
    b"\xff\xfe": "UTF-16: convert it to UTF-8",
    b"\xfe\xff": "UTF-16: convert it to UTF-8",
}
_CONTROLS = bytes(set(range(32)) - set(b"\a\b\t\n\v\f\r\x1b"))


@dataclass(frozen=True)
class LineProblem:
    """One thing wrong with one line of a file, or with the file, and what was done about it."""

    file: str
    line: int  # counted from 1; 0 is the file as a whole
    what: str
    done: str
    kind: str = ""  # what problems are counted by

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.what}, {self.done}"


@dataclass
class Report:
    """The problems met so far: how many of each kind, and the first few in full; and how each file was read."""

    keep: int = 5
    counts: Counter[str] = field(default_factory=Counter)
    first: list[LineProblem] = field(default_factory=list)
    layouts: dict[str, str] = field(
        default_factory=dict
    )  # file: the columns taken, and whether it has a header

    def note(self, problem: LineProblem, *, times: int = 1) -> None:
        """Count a problem, of one line or of several."""
        self.counts[problem.kind or problem.what] += times
        if len(self.first) < self.keep:
            self.first.append(problem)

    @property
    def total(self) -> int:
        """How many problems there were."""
        return self.counts.total()

    @property
    def kinds(self) -> str:
        """How many problems of each kind."""
        return ", ".join(f"{kind}: {count:,}" for kind, count in self.counts.most_common())

    @property
    def reasons(self) -> str:
        """Why nothing is left, for the end of a message; nothing where there was no problem."""
        return f"; dropped: {self.kinds}; the first: {self.first[0]}" if self.first else ""

    def __str__(self) -> str:
        told = [str(problem) for problem in self.first]
        if self.total > len(told):
            told.append(f"{self.total} problems in all ({self.kinds})")
        return "\n".join(told)


@dataclass(frozen=True)
class Flaw:
    """Why a line (or a field of it) is not used."""

    kind: str
    what: str


@dataclass(frozen=True)
class Dealing:
    """How flaws of one kind of thing ("line", "pair") are dealt with."""

    thing: str
    policy: Policy
    report: Report

    def drop(self, file: str, line: int, flaw: Flaw) -> None:
        """Note a thing as dropped, or stop here."""
        if self.policy == "error":
            done = f'stopped there; the policy "skip" would drop this {self.thing}'
            raise RegardError(str(LineProblem(file, line, flaw.what, done)))
        self.report.note(LineProblem(file, line, flaw.what, f"{self.thing} dropped", flaw.kind))


def dealing(thing: str, policy: Policy, report: Report | None) -> Dealing:
    """How a policy deals with flaws; who hands in no report does not want to know."""
    if policy not in ("error", "skip"):
        raise RegardError(f'policy={policy!r}: give "error" or "skip"')
    return Dealing(thing, policy, Report() if report is None else report)


def read_lines(
    path: str, *, policy: Policy = "error", report: Report | None = None, limit: int = LONGEST
) -> Iterator[str]:
    """The lines of a text file, empty ones too."""
    dealt = dealing("line", policy, report)
    for number, line in enumerate(judged(path, limit=limit), start=1):
        if isinstance(line, Flaw):
            dealt.drop(path, number, line)
        else:
            yield line


def judged(path: str, *, limit: int) -> Iterator[str | Flaw]:
    """Every line, or what is wrong with it: line n of the file is always the nth."""
    bound = 4 * limit + 4  # bytes that this many characters can take, with a byte order mark and a "\r"
    for number, raw in enumerate(_split(path, bound), start=1):
        if number == 1:
            raw = raw.removeprefix(b"\xef\xbb\xbf")
        yield _judge(raw.removesuffix(b"\r"), limit)


def flaw_of(text: str, *, limit: int) -> Flaw | None:
    """What is wrong with a text that is characters already."""
    if len(text) > limit:
        return Flaw("too long", f"longer than {limit} characters")
    if "\0" in text:
        return Flaw("NUL", f"a NUL at character {text.index(chr(0)) + 1}")
    if not text.isascii() and HALF_CHARACTER.search(text):
        return Flaw("half a character", "a lone surrogate, which is half a character")
    return None


def _judge(raw: bytes, limit: int) -> str | Flaw:
    if len(raw) > 4 * limit:
        return Flaw("too long", f"longer than {limit} characters")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        return Flaw("not UTF-8", f"not UTF-8 (byte 0x{raw[error.start]:02x} at byte {error.start + 1})")
    return flaw_of(text, limit=limit) or text


def _split(path: str, bound: int) -> Iterator[bytes]:
    """The lines as bytes; of one longer than the bound a little more than the bound, or all."""
    held, dropped, number = b"", 0, 1
    for piece in _pieces(path):
        *ended, tail = piece.split(b"\n")
        for part in ended:
            yield held + part if held else part
            held, dropped = b"", 0
        number += len(ended)
        held += tail
        if len(held) > bound:
            held, dropped = held[: bound + 1], dropped + len(held) - bound - 1
        if dropped > max(_ENDLESS, bound):
            raise RegardError(
                f"{path}:{number}: no end of this line after {dropped >> 20} MiB: this is no text file"
            )
    if held:
        yield held


def _pieces(path: str) -> Iterator[bytes]:
    """The bytes of a file, unpacked where it is gzip."""
    with unpacking(path) as file:
        first = True
        while piece := file.read(_PIECE):
            if first:
                _refuse_binary(path, piece)
                first = False
            yield piece


def _refuse_binary(path: str, piece: bytes) -> None:
    """Refuse at once, whatever the policy, what is no text at all rather than a text with some bad lines."""
    for magic, what in _OTHERS.items():
        if piece.startswith(magic):
            raise RegardError(f"{path}: this file is {what} first")
    head = piece[: 1 << 16]
    controls = len(head) - len(head.translate(None, _CONTROLS))
    if controls > 32 and controls > len(head) / 20:
        raise RegardError(
            f"{path}: a binary file ({controls} of its first {len(head)} bytes are control characters), give text"
        )


def matching(place: str | Sequence[str]) -> list[str]:
    """The files that a name, a pattern or a list of them means. A file of exactly that name comes first."""
    if not isinstance(place, str):
        if not place:
            raise RegardError("a list of no files: name at least one")
        return [path for each in place for path in matching(each)]
    if not glob.has_magic(place) or os.path.exists(place):
        return [place]
    found = sorted(glob.glob(place, recursive=True))
    if not found:
        raise RegardError(f"{place}: no file matches this pattern")
    return found


@dataclass(frozen=True)
class Parallel:
    """Two text files, line n of one being line n of the other in another language; or two patterns for several each."""

    source: str
    target: str


def read_parallel(place: Parallel, dealt: Dealing, limit: int) -> Iterator[tuple[str, str]]:
    """The pairs of parallel files, or of several of them. What is dropped is dropped on both sides."""
    sources, targets = matching(place.source), matching(place.target)
    if len(sources) != len(targets):
        raise RegardError(
            f"{place.source} means {len(sources)} files and {place.target} means {len(targets)}: they are not parallel"
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
