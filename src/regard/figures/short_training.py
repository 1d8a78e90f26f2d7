"""The short trainings of figures: nothing is left on the disk, and the random numbers of the caller stay as they were."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

from regard.data.batches import Feed
from regard.errors import RegardError
from regard.figures.figure_result import Progress
from regard.runs.settings import MAX_STEPS, Training
from regard.training.loop import train
from regard.training.observers import Observer, Update

_LINES = 4  # of progress in a training
_SEEDS = 2**62


def check_options(*, seed: int, steps: int) -> None:
    """Raise where the options that all of these figures have are out of range."""
    if not 0 <= seed < _SEEDS:
        raise RegardError(f"--seed {seed}: from 0 to {_SEEDS - 1}")
    if not 1 <= steps <= MAX_STEPS:
        raise RegardError(f"--steps {steps}: from 1 to {MAX_STEPS:,}")


def learn(
    make: Callable[[], nn.Module],  # of a model that `Trains`
    feed: Feed[Any],
    settings: Training,
    *,
    seed: int,
    name: str,
    progress: Progress,
) -> tuple[nn.Module, list[tuple[float, float]]]:
    """A model made and trained from a seed on the CPU, and its loss after each update."""
    with seeded(seed), one_thread(), TemporaryDirectory() as folder:
        model = make()
        losses = _Losses(name, settings.steps, progress)
        outcome = train(model, feed, settings, folder=Path(folder), seed=seed, observers=[losses])
    if outcome.stopped:
        raise KeyboardInterrupt  # the loop has taken the signal
    return model.eval(), losses.points


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Random numbers of torch from this seed on; afterwards they go on as before."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread of torch: for models this small others only wait, and sums would depend on how many there are."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Losses(Observer):
    def __init__(self, name: str, steps: int, progress: Progress) -> None:
        self.name, self.steps, self.progress = name, steps, progress
        self.points: list[tuple[float, float]] = []

    def stepped(self, update: Update) -> None:
        """Keep the loss; a few times, report it."""
        loss = update.total / max(1, update.count)
        self.points.append((float(update.step), loss))
        if update.step == self.steps or update.step % max(1, self.steps // _LINES) == 0:
            self.progress(f"{self.name}: {update.step} of {self.steps} updates, loss {loss:.3g}")
