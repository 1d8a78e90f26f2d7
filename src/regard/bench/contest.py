"""A contest: several ways to do one thing, measured in interleaved rounds, and whether they gave the same answer."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from regard.bench.measuring import Run, once, peak_megabytes, sample, spread
from regard.bench.record import Setting
from regard.bench.tables import Table, middle, near, short
from regard.sight.pictures.bars import Bar, Bars

SHOWN = 14  # tasks in a picture


@dataclass(frozen=True, kw_only=True)
class Row:
    """One contender at one task."""

    suite: str
    task: str
    contender: str
    milliseconds: float
    spread: tuple[float, float]  # tenth and ninetieth percentile
    ratio: float  # its time over that of regard, within each round; median
    ratio_spread: tuple[float, float]
    megabytes: float | None  # None: not known here
    tokens_per_second: float | None
    check: str  # how its answer compares


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A way to do the task: how to run it, how its answer compares, and if it is not run here, how it is measured."""

    run: Run
    check: str = ""
    timed: Callable[[], float] | None = None  # milliseconds
    peak: Callable[[], float] | None = None  # megabytes


def contest(
    suite: str,
    task: str,
    contenders: Mapping[str, Contender],
    setting: Setting,
    *,
    ours: str = "regard",
    tokens: int | None = None,
) -> list[Row]:
    """All contenders at one task, and ratios to `ours`. `tokens` is the work of one run."""
    timers = {
        name: each.timed or partial(once, each.run, setting.device) for name, each in contenders.items()
    }
    times = sample(timers, setting.rounds)
    rows = []
    for name, each in contenders.items():
        ratios = [theirs / own for theirs, own in zip(times[name], times[ours], strict=True)]
        milliseconds = statistics.median(times[name])
        peak = (each.peak or partial(peak_megabytes, each.run, setting.device))()
        rows.append(
            Row(
                suite=suite,
                task=task,
                contender=name,
                milliseconds=milliseconds,
                spread=spread(times[name]),
                ratio=statistics.median(ratios),
                ratio_spread=spread(ratios),
                megabytes=None if math.isnan(peak) else peak,
                tokens_per_second=None if tokens is None else 1e3 * tokens / milliseconds,
                check=each.check,
            )
        )
    return rows


def table(title: str, rows: Sequence[Row]) -> Table:
    """The rows of a suite, under a line for each task."""
    speed = any(row.tokens_per_second is not None for row in rows)
    columns = ["contender", "ms", *(["tokens/s"] if speed else []), "× regard", "peak MB", "answer"]
    cells: list[list[str]] = []
    for number, row in enumerate(rows):
        if number == 0 or rows[number - 1].task != row.task:
            cells.append([f"{row.task}:", *[""] * (len(columns) - 1)])
        cell = [row.contender, near(row.milliseconds, row.spread)]
        cell += [short(row.tokens_per_second or 0.0)] if speed else []
        cells.append([*cell, middle(row.ratio, row.ratio_spread), _held(row), row.check])
    return Table(title=title, columns=columns, rows=cells)


def _held(row: Row) -> str:
    return "–" if row.megabytes is None else short(row.megabytes)


def bars(title: str, rows: Sequence[Row]) -> Bars:
    """The speed of each contender beside that of regard, a group a task; of many tasks, the last."""
    groups: dict[str, list[Bar]] = {}
    for row in rows:
        said = (
            f"{short(row.milliseconds)} ms"
            if row.tokens_per_second is None
            else f"{short(row.tokens_per_second)} tokens/s"
        )
        groups.setdefault(row.task, []).append(
            Bar(
                name=row.contender,
                amount=1 / row.ratio,
                ends=(1 / row.ratio_spread[1], 1 / row.ratio_spread[0]),
                said=f"{1 / row.ratio:.2f}, {said}, {_held(row)} MB",
            )
        )
    shown = list(groups.items())[-SHOWN:]
    note = "speed beside regard, which is 1; 10th to 90th percentile of the ratios within interleaved rounds"
    return Bars(title=title, note=note, groups=shown)
