"""The training loop. It knows that a model has a loss, that a feed has an order, and what the settings say."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.data.batches import Feed
from regard.errors import RegardError
from regard.runs.settings import Training
from regard.training.checkpoints import Checkpoint
from regard.training.distribution import World, joined
from regard.training.observers import Observer, Outcome, told
from regard.training.shelf import Shelf
from regard.training.signals import Interruption
from regard.training.state import Standing, State
from regard.training.turns import turns
from regard.training.update import Updater, Work
from regard.training.weights import install, weights_of

Evaluate = Callable[[nn.Module], Mapping[str, float]]

SMALLER_IS_BETTER = ("loss", "perplexity", "wer", "cer")


def train(
    model: nn.Module,  # that `Trains`
    feed: Feed[Any],
    settings: Training,
    *,
    folder: Path,
    seed: int,
    evaluate: Evaluate | None = None,
    observers: Sequence[Observer] = (),
    device: torch.device | str = "cpu",
    resume: bool = False,
) -> Outcome:
    """Train a model; leave checkpoints in folder/checkpoints and the final weights in the model.

    The final weights are the mean of the last checkpoints if `averaging.last` says so; otherwise the best, if there
    is `patience`; otherwise the running mean, if there is one; otherwise the last.

    To resume is to call this again, with the same arguments and a model made in the same way: it goes on from the
    newest whole checkpoint, or from the beginning if there is none, and ends with the same weights. SIGTERM and
    SIGINT end it after the update under way, saved, with `stopped`: a command then exits with `EXIT_STOPPED`.
    """
    _check(model, settings, evaluate)
    with (
        joined(device) as world,
        told(observers if world.first else ()) as observer,
        Interruption() as interruption,
    ):
        state = State(model.to(world.device).train(), settings)
        shelf = Shelf(folder / "checkpoints", settings)
        training = _Training(state, settings, world, shelf, evaluate, observer)
        training.begin(resume=resume)
        stopped = _updates(training, feed, seed, interruption)
        return training.end(stopped=stopped)


def _updates(training: "_Training", feed: Feed[Any], seed: int, interruption: Interruption) -> bool:
    """Update until the end, or until asked to stop; whether the latter."""
    state, settings, observer = training.state, training.settings, training.observer
    updater = Updater(state, settings, world=training.world, seed=seed)
    upcoming = _prepared(updater, feed, state.standing, settings.steps)
    work, stopped = None if training.at_end else next(upcoming), False
    while work is not None:
        observer.stepping(state.standing.step + 1)
        pending = updater.compute(work, stop=interruption.asked)
        following = next(upcoming, None)  # batches are made while a GPU computes
        update, stopped = updater.apply(work, pending)
        state.standing = replace(
            state.standing, step=update.step, epoch=work.turn.epoch, position=work.turn.position + 1
        )
        observer.stepped(update)
        training.evaluate_if_due()
        training.save_if_due(stopped=stopped)
        work = None if training.at_end or stopped else following
    return stopped and not training.at_end


def _prepared(updater: Updater, feed: Feed[Any], standing: Standing, steps: int) -> Iterator[Work]:
    """The work of every update that is left."""
    every = turns(feed, epoch=standing.epoch, position=standing.position)
    for turn in islice(every, max(steps - standing.step, 0)):
        yield updater.prepare(feed, turn)


def _check(model: nn.Module, settings: Training, evaluate: Evaluate | None) -> None:
    if not callable(getattr(model, "loss", None)):
        raise RegardError(f"{type(model).__name__} has no loss(batch): it cannot be trained")
    if settings.patience and evaluate is None:
        raise RegardError(
            f"patience = {settings.patience}, but nothing is evaluated: give evaluate, or patience = 0"
        )
    if settings.averaging.last and settings.averaging.ema:
        raise RegardError(
            f"averaging.last = {settings.averaging.last} and averaging.ema = {settings.averaging.ema}: choose one"
        )
    if settings.accumulate < 1 or settings.steps < 1:
        raise RegardError(
            f"accumulate = {settings.accumulate}, steps = {settings.steps}: both are at least 1"
        )


class _Training:
    """What happens around the updates: evaluating, saving, beginning and ending."""

    def __init__(
        self,
        state: State,
        settings: Training,
        world: World,
        shelf: Shelf,
        evaluate: Evaluate | None,
        observer: Observer,
    ) -> None:
        self.state, self.settings, self.world, self.shelf = state, settings, world, shelf
        self.evaluate, self.observer = evaluate, observer
        self.notices: list[str] = []

    @property
    def exhausted(self) -> bool:
        """Whether there was no better evaluation for as long as patience lasts."""
        return 0 < self.settings.patience <= self.state.standing.waited

    @property
    def at_end(self) -> bool:
        """Whether no update is to follow."""
        return self.exhausted or self.state.standing.step >= self.settings.steps

    def begin(self, *, resume: bool) -> None:
        """Go on from where the newest checkpoint is, all processes from the same."""
        found = self.shelf.open(resume=resume, notices=self.notices) if self.world.first else None
        path = self.world.share(None if found is None else str(found.path))
        step = self.world.share(None if found is None else found.step)
        if path is not None and step is not None:
            self.state.restore(Checkpoint(Path(path), step))
        self.observer.started(self.state.model, step=self.state.standing.step, steps=self.settings.steps)
        for notice in self.notices:
            self.observer.noticed(notice)

    def evaluate_if_due(self) -> None:
        """Evaluate, with the running mean if there is one, and keep the weights if they are the best so far."""
        if self.evaluate is None or not (self._due(self.settings.evaluate) or self.at_end):
            return
        if self.state.mean is None:
            self._evaluate()
        else:
            with self.state.mean.installed():
                self._evaluate()

    def _evaluate(self) -> None:
        standing, wanted = self.state.standing, self.settings.best
        metrics = self._measured()
        if wanted not in metrics:
            raise RegardError(
                f"best = {wanted!r}, but the evaluation gives {', '.join(metrics) or 'nothing'}"
            )
        better = _better(metrics[wanted], standing.best.get(wanted), smaller=wanted in SMALLER_IS_BETTER)
        if better:
            standing = replace(standing, best=metrics, best_step=standing.step)
        waited = 0 if better else standing.waited + 1
        self.state.standing = replace(standing, metrics=metrics, waited=waited)
        if better and self.world.first:
            self.shelf.save_best(self.state, weights_of(self.state.model))
        self.observer.evaluated(standing.step, metrics)

    def _measured(self) -> dict[str, float]:
        """The metrics of the weights in the model: the first process finds them, the others wait."""
        found: dict[str, float] = {}
        if self.evaluate is not None and self.world.first:
            self.state.model.eval()
            with torch.no_grad():
                found = {name: float(value) for name, value in self.evaluate(self.state.model).items()}
            self.state.model.train()
        return self.world.share(found)

    def save_if_due(self, *, stopped: bool) -> None:
        """A checkpoint every so often, when stopping, and at the end."""
        if self.world.first and (self._due(self.settings.save) or stopped or self.at_end):
            self.observer.saving(self.state.standing.step)
            self.observer.saved(self.shelf.save(self.state))

    def _due(self, every: int) -> bool:
        return self.state.standing.step % every == 0

    def end(self, *, stopped: bool) -> Outcome:
        """Leave the final weights in the model of every process, and say which they are."""
        standing = self.state.standing
        kind, metrics = "last", standing.metrics
        if not stopped:
            kind, metrics = self._finalise(standing)
        self.state.model.eval()
        outcome = Outcome(
            step=standing.step,
            weights=weights_of(self.state.model),
            kind=kind,
            metrics=metrics,
            stopped=stopped,
            notices=tuple(self.notices),
        )
        self.observer.finished(outcome)
        return outcome

    def _finalise(self, standing: Standing) -> tuple[str, Mapping[str, float]]:
        kind, metrics = "last", standing.metrics
        if self.settings.averaging.last:
            if self.world.first:
                weights, count = self.shelf.mean(standing.step, self.notices)
                install(self.state.model, weights)
                kind = f"mean of {count} checkpoints"
            metrics = self._measured()
        elif self.settings.patience and standing.best:
            if self.world.first:
                install(self.state.model, self.shelf.best(standing.best_step))
            kind, metrics = f"best, of step {standing.best_step}", standing.best
        elif self.state.mean is not None:
            self.state.mean.install()
            kind = "running mean"
        self.world.spread(self.state.model)
        return self.world.share(kind), metrics


def _better(new: float, old: float | None, *, smaller: bool) -> bool:
    """Whether a metric has improved. What is not a number never has."""
    if new != new:
        return False
    return old is None or (new < old if smaller else new > old)
