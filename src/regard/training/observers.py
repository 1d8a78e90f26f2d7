"""Observers: notified of the events of a training, without changing it. The log, the progress bar and TensorBoard are."""

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from torch import Tensor, nn

from regard.data.file_access import sync_folder
from regard.errors import RegardError
from regard.runs.tasks.prepared import AnsweredSample

_LETTERS = 70  # of a text that is shown


@dataclass(frozen=True, kw_only=True)
class Update:
    """One update: its sums over all parts and processes, and how it was made."""

    step: int  # counted from 1
    epoch: int
    total: float  # summed loss
    count: int  # of tokens, or of samples
    metrics: Mapping[str, float]  # sums as well
    rate: float  # learning rate
    norm: float  # of the mean gradient, before it was clipped


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """How a training ended. The weights are those left in the model."""

    step: int
    weights: Mapping[str, Tensor]
    kind: str  # which weights they are: "last", "running mean", "mean of 5 checkpoints", "best, of step 500"
    metrics: Mapping[str, float]  # the evaluation of these weights; nothing, if none was asked for
    stopped: bool  # asked to stop by a signal: saved, and to be resumed
    notices: Sequence[str] = ()  # such as a broken checkpoint
    # Weights that were compared and not kept: their kind → their evaluation.
    others: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


class Observer:
    """What is called while a model trains, in the first process only. A subclass overrides what it cares about."""

    def started(self, model: nn.Module, *, step: int, steps: int) -> None:
        """Training begins, or goes on, after `step` of `steps` updates."""

    def stepping(self, step: int) -> None:
        """The forward pass of an update comes next."""

    def stepped(self, update: Update) -> None:
        """An update was made."""

    def evaluated(self, step: int, metrics: Mapping[str, float]) -> None:
        """The model was evaluated."""

    def answered(self, step: int, samples: Sequence[AnsweredSample]) -> None:
        """The evaluated model answered some samples of the validation data."""

    def saving(self, step: int) -> None:
        """A checkpoint comes next: what is to be found after a crash has to be on the disk now."""

    def saved(self, path: Path) -> None:
        """A checkpoint is safe."""

    def noticed(self, message: str) -> None:
        """Something that a person should know, and that is no error."""

    def finished(self, outcome: Outcome) -> None:
        """Training has ended, or was stopped by a signal."""

    def close(self) -> None:
        """Training has ended, well or not."""


def _to_each(event: str) -> Any:
    def call(self: "_Several", *given: Any, **named: Any) -> None:
        for each in self.observers:
            getattr(each, event)(*given, **named)

    return call


class _Several(Observer):
    """Several observers as one."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self.observers = observers

    started, stepping, stepped = _to_each("started"), _to_each("stepping"), _to_each("stepped")
    evaluated, answered = _to_each("evaluated"), _to_each("answered")
    saving, saved = _to_each("saving"), _to_each("saved")
    noticed, finished, close = _to_each("noticed"), _to_each("finished"), _to_each("close")


@contextmanager
def observed_by(observers: Sequence[Observer]) -> Iterator[Observer]:
    """Observers as one, closed at the end."""
    several = _Several(observers)
    try:
        yield several
    finally:
        several.close()


@dataclass
class Means:
    """Averages over the updates since the last report: of sums, by their counts, as batches differ in size."""

    total: float = 0.0
    count: int = 0
    metrics: dict[str, float] = field(default_factory=dict)

    def add(self, update: Update) -> None:
        """Take one more update in."""
        self.total += update.total
        self.count += update.count
        for name, value in update.metrics.items():
            self.metrics[name] = self.metrics.get(name, 0.0) + value

    def per_token(self) -> dict[str, float]:
        """The loss, and each metric, for each token."""
        count = max(self.count, 1)
        return {"loss": self.total / count} | {name: value / count for name, value in self.metrics.items()}


class Log(Observer):
    """Writes `log.jsonl`. On resuming, lines of updates that are made again are cut.

    {"event": "update", "step": 7, "epoch": 0, "loss": 2.3, "metrics": {…}, "tokens": 812, "rate": 1e-4, "norm": 0.9,
    "seconds": 1.5}: loss and metrics are means over the tokens of the update. {"event": "evaluation", …} and, at the
    end of a run, {"event": "end", …} have "step", "metrics" and "seconds"; the end also "weights", which they are, and
    "others", the metrics of weights that were compared with them and not kept. What is not finite is null.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self.path, self._clock = path, clock
        self._file: BinaryIO | None = None
        self._began = 0.0

    def started(self, model: nn.Module, *, step: int, steps: int) -> None:
        """Open the log behind the last line that is to stay."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            size, seconds = _kept(self.path, step) if self.path.exists() else (0, 0.0)
            self._file = self.path.open("ab")
            self._file.truncate(size)
            sync_folder(self.path.parent)  # or a power cut could leave a checkpoint and no log
        except OSError as error:
            raise self._refused(error) from None
        self._began = self._clock() - seconds

    def stepped(self, update: Update) -> None:
        """A line for the update."""
        count = max(update.count, 1)
        self._write(
            {
                "event": "update",
                "step": update.step,
                "epoch": update.epoch,
                "loss": update.total / count,
                "metrics": {name: value / count for name, value in update.metrics.items()},
                "tokens": update.count,
                "rate": update.rate,
                "norm": update.norm,
            }
        )

    def evaluated(self, step: int, metrics: Mapping[str, float]) -> None:
        """A line for the evaluation."""
        self._write({"event": "evaluation", "step": step, "metrics": dict(metrics)})

    def saving(self, step: int) -> None:
        """A checkpoint must not outlive the lines before it."""
        if self._file is not None:
            os.fsync(self._file.fileno())

    def finished(self, outcome: Outcome) -> None:
        """The last line, unless the run is to be resumed."""
        if not outcome.stopped:
            about: dict[str, Any] = {"weights": outcome.kind, "metrics": dict(outcome.metrics)}
            if outcome.others:
                about["others"] = {kind: dict(metrics) for kind, metrics in outcome.others.items()}
            self._write({"event": "end", "step": outcome.step, **about})

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            with suppress(OSError):  # a full disk was reported by the line that did not fit
                self._file.close()
            self._file = None

    def _write(self, line: dict[str, Any]) -> None:
        if self._file is not None:
            line["seconds"] = round(self._clock() - self._began, 3)
            try:
                self._file.write(json.dumps(_strict(line)).encode() + b"\n")
                self._file.flush()
            except OSError as error:
                raise self._refused(error) from None

    def _refused(self, error: OSError) -> RegardError:
        return RegardError(f"{self.path} cannot be written ({error.strerror})")


def _kept(path: Path, step: int) -> tuple[int, float]:
    """Up to which byte a log tells of the first `step` updates, and the seconds they took."""
    size, seconds = 0, 0.0
    if step == 0:
        return size, seconds
    with path.open("rb") as file:
        for line in file:
            try:
                entry = json.loads(line)
            except ValueError:
                break  # a line that was being written when the process was killed
            if not line.endswith(b"\n") or entry["event"] == "end" or entry["step"] > step:
                break
            size, seconds = size + len(line), entry["seconds"]
    return size, seconds


def _strict(value: Any) -> Any:
    """JSON has no word for NaN and infinity."""
    if isinstance(value, dict):
        return {name: _strict(each) for name, each in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


class Progress(Observer):
    """Loss, learning rate, tokens or samples a second and time left, averaged since the last report."""

    def __init__(
        self,
        console: Console | None = None,
        *,
        every: float | None = None,  # seconds between reports: 0.5 in a terminal, 10 elsewhere
        unit: str = "tokens",  # that an update counts
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._console = console or Console(stderr=True)
        self._every = every if every is not None else (0.5 if self._console.is_terminal else 10.0)
        self._clock, self._unit = clock, unit
        self._bar: Bar | None = None
        self._means, self._since, self._first, self._steps = Means(), 0.0, 0, 0
        self._began: float | None = None

    def started(self, model: nn.Module, *, step: int, steps: int) -> None:
        """Show the bar."""
        self._first, self._steps = step, steps
        self._since = self._began = self._clock()
        self._means = Means()
        if self._console.is_terminal:
            columns = (
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[text]}"),
                TimeRemainingColumn(),
            )
            self._bar = Bar(*columns, console=self._console)
            self._bar.add_task("", total=steps, completed=step, text="")
            self._bar.start()

    def stepped(self, update: Update) -> None:
        """Report, if it is time again."""
        self._means.add(update)
        now = self._clock()
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=update.step)
        if now - self._since >= self._every or update.step == self._steps:
            self._report(update, now)
            self._means, self._since = Means(), now

    def evaluated(self, step: int, metrics: Mapping[str, float]) -> None:
        """A line that stays."""
        self._line(f"step {step}: " + "  ".join(f"{name} {value:.4g}" for name, value in metrics.items()))

    def answered(self, step: int, samples: Sequence[AnsweredSample]) -> None:
        """A line each, with its reference."""
        for each in samples:
            self._line(f"  {_cut(each.given)} → {_cut(each.answer)} (reference: {_cut(each.reference)})")

    def noticed(self, message: str) -> None:
        """A line that stays."""
        self._line(message)

    def finished(self, outcome: Outcome) -> None:
        """How it ended."""
        if outcome.stopped:
            self._line(f"stopped after step {outcome.step}, saved: resume to go on")

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _report(self, update: Update, now: float) -> None:
        speed = self._means.count / max(now - self._since, 1e-9)
        means = self._means.per_token()
        if means.get("nll") == means["loss"]:  # without smoothing they are one thing
            del means["nll"]
        text = "  ".join(f"{name} {value:.3f}" for name, value in means.items())
        text += f"  rate {update.rate:.1e}  {speed:,.0f} {self._unit}/s"
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], text=text)
            return
        left = (now - (self._began or 0.0)) / (update.step - self._first) * (self._steps - update.step)
        self._line(f"step {update.step}/{self._steps}  {text}  {_clock_time(left)} left")

    def _line(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


def _cut(text: str) -> str:
    """In one line that is not too long."""
    text = " ".join(text.split())
    return text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…"


def _clock_time(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}"


class TensorBoard(Observer):
    """Writes event files of TensorBoard to a folder: `train/…` every so many updates, `evaluation/…` when there is one."""

    def __init__(self, folder: Path, *, every: int = 10) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise RegardError("TensorBoard is not installed: pip install 'regard[tensorboard]'") from error
        self._folder, self._every, self._open = folder, every, SummaryWriter
        self._writer: Any = None
        self._means = Means()

    def started(self, model: nn.Module, *, step: int, steps: int) -> None:
        """Begin, or go on: what was written of later steps is no longer shown."""
        self._writer = self._open(str(self._folder), purge_step=step + 1 if step else None)
        self._means = Means()

    def stepped(self, update: Update) -> None:
        """Averages since the last time."""
        self._means.add(update)
        if update.step % self._every == 0:
            shown = {**self._means.per_token(), "rate": update.rate, "norm": update.norm}
            self._add("train", shown, update.step)
            self._means = Means()

    def evaluated(self, step: int, metrics: Mapping[str, float]) -> None:
        """Every metric."""
        self._add("evaluation", metrics, step)

    def close(self) -> None:
        """Have everything written."""
        if self._writer is not None:
            self._writer.close()

    def _add(self, group: str, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(f"{group}/{name}", value, step)
