"""The log: one line of JSON for every update and every evaluation, of one run, however often it was resumed."""

import json
import math
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from torch import nn

from regard.data.atomic import sync_folder
from regard.errors import RegardError
from regard.training.observers import Observer, Outcome, Update


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
