"""What was read, in a few lines: printed before every training, so that nothing is dropped or mistaken unseen."""

from collections.abc import Iterator
from itertools import islice

from regard.data.text_lines import Report
from regard.runs.tasks.prepared import Prepared

_FILES, _CLASSES, _LETTERS = 5, 20, 70


def summary(prepared: Prepared, report: Report) -> list[str]:
    """How each file was read, how much there is, its classes, some samples, and what was dropped and why."""
    facts = ", ".join(f"{name}: {_number(fact)}" for name, fact in prepared.facts.items())
    return [
        *layouts(report),
        facts,
        *_classes(prepared),
        *(f"as read: {' → '.join(map(_shown, sample))}" for sample in prepared.samples),
        *(dropped(report) or ["dropped: nothing"]),
        *prepared.notices,
    ]


def layouts(report: Report) -> list[str]:
    """The columns that were taken from each file, and whether its first line is a header."""
    found = [f"{file}: {layout}" for file, layout in report.layouts.items()]
    more = [f"… and {len(found) - _FILES:,} more files"] if len(found) > _FILES else []
    return found[:_FILES] + more


def dropped(report: Report) -> list[str]:
    """How much was dropped, by kind, and the first few by file and line."""
    if not report.total:
        return []
    return [f"dropped: {report.total:,} ({report.kinds})", *(f"  {problem}" for problem in report.first)]


def _classes(prepared: Prepared) -> Iterator[str]:
    if prepared.classes:
        some = [f"{name!r} {count:,}" for name, count in islice(prepared.classes.items(), _CLASSES)]
        more = (
            [f"… and {len(prepared.classes) - _CLASSES:,} more"] if len(prepared.classes) > _CLASSES else []
        )
        yield f"training samples of each class: {', '.join(some + more)}"


def _shown(text: str) -> str:
    return repr(text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…")


def _number(fact: object) -> str:
    return f"{fact:,}" if isinstance(fact, int) else str(fact)
