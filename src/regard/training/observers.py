"""Observers: notified of the events of a training, without changing it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor, nn


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
    others: Mapping[str, Mapping[str, float]] = field(
        default_factory=dict
    )  # weights that were compared and not kept: their kind → their evaluation


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

    def saving(self, step: int) -> None:
        """A checkpoint comes next: what is to be found after a crash has to be on the disk now."""

    def saved(self, path: Path) -> None:
        """A checkpoint is safe."""

    def noticed(self, message: str) -> None:
        """Something that a person should know, and that is no error."""

    def finished(self, outcome: Outcome) -> None:
        """Training has ended well, or was asked to stop."""

    def close(self) -> None:
        """Training has ended, well or not."""


class Everyone(Observer):
    """Several observers as one."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = observers

    def started(self, model: nn.Module, *, step: int, steps: int) -> None:  # noqa: D102
        for each in self._observers:
            each.started(model, step=step, steps=steps)

    def stepping(self, step: int) -> None:  # noqa: D102
        for each in self._observers:
            each.stepping(step)

    def stepped(self, update: Update) -> None:  # noqa: D102
        for each in self._observers:
            each.stepped(update)

    def evaluated(self, step: int, metrics: Mapping[str, float]) -> None:  # noqa: D102
        for each in self._observers:
            each.evaluated(step, metrics)

    def saving(self, step: int) -> None:  # noqa: D102
        for each in self._observers:
            each.saving(step)

    def saved(self, path: Path) -> None:  # noqa: D102
        for each in self._observers:
            each.saved(path)

    def noticed(self, message: str) -> None:  # noqa: D102
        for each in self._observers:
            each.noticed(message)

    def finished(self, outcome: Outcome) -> None:  # noqa: D102
        for each in self._observers:
            each.finished(outcome)

    def close(self) -> None:  # noqa: D102
        for each in self._observers:
            each.close()


@contextmanager
def told(observers: Sequence[Observer]) -> Iterator[Observer]:
    """Observers as one, closed at the end."""
    everyone = Everyone(observers)
    try:
        yield everyone
    finally:
        everyone.close()


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
