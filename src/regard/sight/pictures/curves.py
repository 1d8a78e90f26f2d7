"""The curves of a run: loss, metrics and learning rate over its updates, from its log."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from os import PathLike
from pathlib import Path
from typing import Any

from regard.errors import RegardError
from regard.sight.pictures.chart import Chart, Point, Series
from regard.sight.pictures.scene import Panels

_SHARES = ("accuracy", "exact", "correct")  # metrics between 0 and 1
_LOSSES = ("loss", "nll", "perplexity")  # drawn with the training loss, or saying the same
_SMOOTH = 0.015  # of all updates: how far a smoothed loss looks to either side
_STEEP = 30.0  # largest over smallest loss: beyond, the axis is logarithmic


@dataclass(frozen=True, kw_only=True, eq=False)
class History:
    """What a log says, as points over the number of updates."""

    loss: list[Point] = field(default_factory=list)
    rate: list[Point] = field(default_factory=list)
    evaluated: dict[str, list[Point]] = field(default_factory=dict)  # by metric

    @property
    def ends(self) -> tuple[float, float] | None:
        """Of the axis of updates: 0 and the last one of the log."""
        last = max(points[-1][0] for points in (self.loss, self.rate, *self.evaluated.values()) if points)
        return (0.0, last) if last > 0 else None


def curves_of(log: str | PathLike[str], *, title: str = "") -> Panels:
    """The curves of a `log.jsonl` as one picture. A last line that is cut off is left out.

    The training loss is drawn for every update, pale, and smoothed; the validation loss and other metrics have a
    point for every evaluation.
    """
    history = read_history(Path(log))
    charts = [*_losses(history), *_metrics(history)]
    if any(value is not None for _, value in history.rate):
        rate = [Series(name="", points=history.rate)]
        charts.append(Chart(y="learning rate", series=rate, height=70.0, across=history.ends))
    if not charts:
        raise RegardError(f"{log} has no number that could be drawn")
    return Panels(parts=[*charts[:-1], replace(charts[-1], x="updates")], title=title)  # one axis for all


def loss_of(log: str | PathLike[str]) -> Chart:
    """The loss alone."""
    found = _losses(read_history(Path(log)))
    if not found:
        raise RegardError(f"{log} has no loss that could be drawn")
    return replace(found[0], x="updates")


def read_history(path: Path) -> History:
    """The numbers of a log."""
    history = History()
    for entry in _entries(path):
        step, event = float(entry.get("step", 0)), entry.get("event")
        if event == "update":
            history.loss.append((step, _number(entry.get("loss"))))
            history.rate.append((step, _number(entry.get("rate"))))
        elif event == "evaluation":
            for name, value in entry.get("metrics", {}).items():
                history.evaluated.setdefault(name, []).append((step, _number(value)))
    if not history.loss and not history.evaluated:
        raise RegardError(f"{path} has no update and no evaluation: there are no curves to draw")
    return history


def smoothed(points: Sequence[Point], around: int, *, log: bool = False) -> list[Point]:
    """The mean of every point and up to `around` of its neighbours on either side; gaps stay, and count as none.

    For a logarithmic axis it is the geometric mean: the line then runs through the middle of what is seen.
    """
    known = [None if y is None or not math.isfinite(y) else math.log(y) if log else y for _, y in points]
    totals = [0.0, *accumulate(y or 0.0 for y in known)]
    counts = [0, *accumulate(y is not None for y in known)]
    found: list[Point] = []
    for place, (x, _) in enumerate(points):
        first, last = max(0, place - around), min(len(points), place + around + 1)
        mean = (totals[last] - totals[first]) / max(1, counts[last] - counts[first])
        found.append((x, None if known[place] is None else math.exp(mean) if log else mean))
    return found


def _entries(path: Path) -> Iterable[dict[str, Any]]:
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise RegardError(f"{path} cannot be read: {error.strerror or error}") from None
    for number, line in enumerate(lines, start=1):
        try:
            entry = json.loads(line)
        except ValueError:
            if number == len(lines):  # it was being written
                return
            raise RegardError(f"{path}:{number}: this is not a line of JSON") from None
        if not isinstance(entry, dict):
            raise RegardError(
                f"{path}:{number}: a line of a log is an object, not {line[:40].decode(errors='replace')}"
            )
        yield entry


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _losses(history: History) -> list[Chart]:
    trained = [value for _, value in history.loss if value is not None]
    validated = history.evaluated.get("loss", [])
    values = trained + [value for _, value in validated if value is not None]
    if not values:
        return []
    steep = min(values) > 0 and max(values) > _STEEP * min(values)
    series = []
    if trained:
        around = round(_SMOOTH * len(history.loss))
        if around:
            series.append(Series(name="", points=history.loss, look="thin"))
        series.append(Series(name="training", points=smoothed(history.loss, around, log=steep)))
    if validated:
        series.append(Series(name="validation", points=validated, look="points"))
    return [
        Chart(y="loss" + (", logarithmic" if steep else ""), series=series, log=steep, across=history.ends)
    ]


def _metrics(history: History) -> list[Chart]:
    """The shares on one chart, scores of up to 100 on another."""
    shares = {name: points for name, points in history.evaluated.items() if name in _SHARES}
    scores = {name: points for name, points in history.evaluated.items() if name not in (*_SHARES, *_LOSSES)}
    charts = []
    for metrics, percent in ((shares, True), (scores, False)):
        series = [
            Series(name=name, points=points, look="points")
            for name, points in metrics.items()
            if any(value is not None for _, value in points)
        ]
        if series:
            label = "validation" if percent else "validation score"
            charts.append(
                Chart(y=label, series=series[:8], percent=percent, height=130.0, across=history.ends)
            )
    return charts
