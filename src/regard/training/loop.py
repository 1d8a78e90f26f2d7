"""The training loop. It knows that a model has a loss, that a feed has an order, and what the settings say."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.data.batches import Feed
from regard.errors import Interrupted, Interruption, RegardError
from regard.runs.checkpoints import Checkpoint, CheckpointRetention, TrainingProgress
from regard.runs.settings import Training
from regard.runs.tasks.prepared import AnsweredSample
from regard.training.distribution import World, batch_order, conditions, differences, joined
from regard.training.observers import Observer, Outcome, observed_by
from regard.training.state import TrainingState, install, mean_of, weights_of
from regard.training.update import Updater, Work

Evaluate = Callable[[nn.Module], Mapping[str, float]]
SMALLER_IS_BETTER = ("loss", "perplexity", "wer", "cer")

Answers = Callable[[nn.Module], Sequence[AnsweredSample]]  # samples answered by the model, to be shown
Measure = Callable[[], dict[str, float]]  # the metrics of the weights in the model


def train(
    model: nn.Module,  # that `Trains`
    feed: Feed[Any],
    settings: Training,
    *,
    folder: Path,
    seed: int,
    evaluate: Evaluate | None = None,
    answer: Answers | None = None,
    observers: Sequence[Observer] = (),
    device: torch.device | str = "cpu",
    resume: bool = False,
    interruption: Interruption
    | None = None,  # opened by the caller; default: one for the duration of this call
) -> Outcome:
    """Train a model; leave checkpoints in folder/checkpoints and the final weights in the model.

    The final weights are the mean of the last checkpoints if `averaging.last` says so; otherwise the best, if there
    is `patience`; otherwise the running mean, if there is one; otherwise the last. A mean is kept only if it is at
    least as good on validation data as what would be kept without it.

    To resume is to call this again, with the same arguments and a model made in the same way: it goes on from the
    newest whole checkpoint, or from the beginning if there is none, and ends with the same weights. SIGTERM and
    SIGINT end it after the update or in the evaluation under way, saved, with `stopped`: a command then exits with
    `EXIT_STOPPED`.
    """
    _check(model, settings, evaluate)
    with (
        joined(device) as world,
        observed_by(observers if world.first else ()) as observer,
        nullcontext(interruption) if interruption is not None else Interruption() as asked,
    ):
        state = TrainingState(model.to(world.device).train(), settings)
        retention = CheckpointRetention(folder / "checkpoints", settings)
        training = _Training(state, settings, world, retention, evaluate, answer, observer, asked)
        training.begin(resume=resume)
        stopped = _updates(training, feed, seed, asked)
        return training.end(stopped=stopped)


def _updates(training: "_Training", feed: Feed[Any], seed: int, interruption: Interruption) -> bool:
    """Update until the end, or until asked to stop; whether the latter."""
    state, settings, observer = training.state, training.settings, training.observer
    updater = Updater(state, settings, world=training.world, seed=seed)
    if updater.report.replaced:
        observer.noticed(updater.report.summary)
    upcoming = _prepared(updater, feed, state.progress, settings.steps)
    stopped = training.evaluate_and_save(stopped=False) if state.progress.due else False
    work = None if training.at_end or stopped else next(upcoming)
    told = False
    while work is not None:
        observer.stepping(state.progress.step + 1)
        pending = updater.compute(work, stop=interruption.asked)
        following = next(upcoming, None)  # batches are made while a GPU computes
        update, stopped = updater.apply(work, pending)
        state.progress = replace(
            state.progress, step=update.step, epoch=work.place.epoch, position=work.place.position + 1
        )
        observer.stepped(update)
        if not told and updater.uncaptured is not None:
            observer.noticed(f"without CUDA graphs: {updater.uncaptured}")
            told = True
        stopped = training.evaluate_and_save(stopped=stopped)
        work = None if training.at_end or stopped else following
    return stopped


def _prepared(updater: Updater, feed: Feed[Any], progress: TrainingProgress, steps: int) -> Iterator[Work]:
    """The work of every update that is left."""
    every = batch_order(feed, epoch=progress.epoch, position=progress.position)
    for place in islice(every, max(steps - progress.step, 0)):
        yield updater.prepare(feed, place)


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
        state: TrainingState,
        settings: Training,
        world: World,
        retention: CheckpointRetention,
        evaluate: Evaluate | None,
        answer: Answers | None,
        observer: Observer,
        interruption: Interruption,
    ) -> None:
        self.state, self.settings, self.world, self.retention = state, settings, world, retention
        self.evaluate, self.answer, self.observer = evaluate, answer, observer
        self.interruption = interruption
        self.notices: list[str] = []

    @property
    def exhausted(self) -> bool:
        """Whether there was no better evaluation for as long as patience lasts."""
        return 0 < self.settings.patience <= self.state.progress.waited

    @property
    def at_end(self) -> bool:
        """Whether no update is to follow."""
        return self.exhausted or self.state.progress.step >= self.settings.steps

    def begin(self, *, resume: bool) -> None:
        """Go on from where the newest checkpoint is, all processes from the same."""
        found = self.retention.open(resume=resume, notices=self.notices) if self.world.first else None
        path = self.world.share(None if found is None else str(found.path))
        step = self.world.share(None if found is None else found.step)
        if path is not None and step is not None:
            checkpoint = Checkpoint(Path(path), step)
            self.state.restore(checkpoint)
            if self.world.first:
                self.retention.prune(
                    checkpoint, best_step=self.state.progress.best_step
                )  # which a kill may have come between
            other = differences(checkpoint.about().get("made_with", {}), conditions(self.world))
            self.notices += [other] if other is not None else []
        self.observer.started(self.state.model, step=self.state.progress.step, steps=self.settings.steps)
        for notice in self.notices:
            self.observer.noticed(notice)

    def evaluate_and_save(self, *, stopped: bool) -> bool:
        """Both where they are due; whether to stop. An evaluation that is interrupted is made first on resuming."""
        progress = self.state.progress
        evaluating = self.evaluate is not None and (
            progress.due or self._due(self.settings.evaluate) or self.at_end
        )
        saving = self._due(self.settings.save) or stopped or self.at_end
        if evaluating or saving:
            self._refuse_what_is_not_finite()
        if evaluating:
            try:
                if stopped:
                    raise Interrupted
                self._evaluate()
                self.state.progress = replace(self.state.progress, due=False)
            except Interrupted:
                self.state.progress, stopped = replace(progress, due=True), True
        if self.world.first and (saving or stopped or progress.due or self.at_end):
            self.observer.saving(progress.step)
            state, made_with = self.state, conditions(self.world)
            self.observer.saved(self.retention.save(state.progress, state.tensors(), made_with=made_with))
        return stopped

    def _refuse_what_is_not_finite(self) -> None:
        """Of all processes, for all have the same weights."""
        name = self.state.astray()
        if name is not None:
            raise RegardError(
                f"after step {self.state.progress.step} {name} is not finite, so nothing is saved: earlier checkpoints "
                f"are as they were; lower training.learning_rate (it is {self.settings.learning_rate:g}), warm up longer, or set "
                "training.clip"
            )

    def _evaluate(self) -> None:
        """Evaluate, with the running mean if there is one, and keep the weights if they are the best so far."""
        if self.state.mean is None:
            self._evaluate_these()
        else:
            with self.state.mean.installed():
                self._evaluate_these()

    def _evaluate_these(self) -> None:
        progress, wanted = self.state.progress, self.settings.best
        metrics = self._measured()
        if wanted not in metrics:
            raise RegardError(
                f"best = {wanted!r}, but the evaluation gives {', '.join(metrics) or 'nothing'}"
            )
        improved = better(metrics[wanted], progress.best.get(wanted), wanted)
        if improved:
            progress = replace(progress, best=metrics, best_step=progress.step)
        waited = 0 if improved else progress.waited + 1
        self.state.progress = replace(progress, metrics=metrics, waited=waited)
        if improved and self.world.first:
            self.retention.save_best(self.state.progress, weights_of(self.state.model))
        self.observer.evaluated(progress.step, metrics)
        if self.answer is not None and self.world.first:
            self._answer(self.answer)

    def _answer(self, answer: Answers) -> None:
        """Have the model answer some samples, for people to read: what goes wrong with that ends no training."""
        model = self.state.model.eval()
        try:
            with torch.no_grad():
                self.observer.answered(self.state.progress.step, answer(model))
        except RegardError as error:
            self.observer.noticed(f"no samples are shown: {error}")
        finally:
            model.train()

    def _measured(self) -> dict[str, float]:
        """The metrics of the weights in the model: the first process finds them, the others wait."""
        model = self.state.model.eval()
        try:
            found = self.world.ask_first(lambda: self._metrics(model), self.interruption)
        finally:
            model.train()
        return self.world.share(found or {})

    def _metrics(self, model: nn.Module) -> dict[str, float]:
        if self.evaluate is None:
            return {}
        with torch.no_grad():
            return {name: float(value) for name, value in self.evaluate(model).items()}

    def _due(self, every: int) -> bool:
        return self.state.progress.step % every == 0

    def end(self, *, stopped: bool) -> Outcome:
        """Leave the final weights in the model of every process, and say which they are."""
        progress = self.state.progress
        final = Final(kind="last", metrics=progress.metrics)
        if not stopped:
            try:
                measure = None if self.evaluate is None else self._measured
                final = finalise(self.state, self.retention, self.world, measure)
            except Interrupted:
                stopped = True
        for notice in final.notices:
            self.observer.noticed(notice)
        self.state.model.eval()
        outcome = Outcome(
            step=progress.step,
            weights=weights_of(self.state.model),
            kind=final.kind,
            metrics=final.metrics,
            stopped=stopped,
            notices=(*self.notices, *final.notices),
            others=final.others,
        )
        self.observer.finished(outcome)
        return outcome


@dataclass(frozen=True, kw_only=True)
class Final:
    """Which weights were left in the model."""

    kind: str
    metrics: Mapping[str, float]  # their evaluation
    others: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # not kept: kind → evaluation
    notices: Sequence[str] = ()


def finalise(
    state: TrainingState, retention: CheckpointRetention, world: World, measure: Measure | None
) -> Final:
    """Leave the final weights in the model of every process.

    Averaged weights are kept if they are at least as good on validation data, by the metric that `best` names, as
    the ones that would be kept without averaging.
    """
    notices: list[str] = []
    final = _chosen(state, retention, world, measure, notices)
    world.spread(weights_of(state.model).values())
    return Final(**world.share(asdict(replace(final, notices=notices))))


def _chosen(
    state: TrainingState,
    retention: CheckpointRetention,
    world: World,
    measure: Measure | None,
    notices: list[str],
) -> Final:
    """The choice. Which weights are in the model matters in the first process alone."""
    settings = retention.settings
    single = _single(state, retention, world, notices)
    if settings.averaging.last:
        kept, count = {name: weight.clone() for name, weight in weights_of(state.model).items()}, 0
        if world.first:
            several = retention.averaged(state.progress.step, notices)
            install(state.model, mean_of(several))
            count = len(several)
        mean = Final(kind=f"mean of {count} checkpoints", metrics={})
        try:
            if measure is None:
                return mean
            mean = Final(kind=mean.kind, metrics=measure())
        except BaseException:
            install(state.model, kept)
            raise
        return _compared(mean, single, settings.best, notices, otherwise=lambda: install(state.model, kept))
    if state.mean is None or (settings.patience and state.progress.best):
        return single
    mean = Final(kind="running mean", metrics=state.progress.metrics)
    if measure is not None:  # the evaluations were of the running mean, so the last weights have none yet
        last = Final(kind="last", metrics=measure())
        mean = _compared(mean, last, settings.best, notices, otherwise=lambda: None)
    if mean.kind == "running mean":
        state.mean.install()
    return mean


def _single(state: TrainingState, retention: CheckpointRetention, world: World, notices: list[str]) -> Final:
    """What is kept without averaging over checkpoints, put into the model: the best if there is patience, or the last."""
    progress = state.progress
    if not (retention.settings.patience and progress.best):
        return Final(kind="last", metrics=progress.metrics)
    if world.first:
        weights = retention.best(progress.best_step, notices)
        if weights is None:
            return Final(kind="last", metrics=progress.metrics)
        install(state.model, weights)
    return Final(kind=f"best, of step {progress.best_step}", metrics=progress.best)


def _compared(
    mean: Final, single: Final, metric: str, notices: list[str], *, otherwise: Callable[[], None]
) -> Final:
    """The averaged weights, or the single ones (then `otherwise` is called) if these are better."""
    ours, theirs = mean.metrics[metric], single.metrics[metric]
    worse = better(theirs, ours, metric)
    if worse:
        otherwise()
    kept, left = (single, mean) if worse else (mean, single)
    notices.append(
        f"kept: {kept.kind}, with {metric} {kept.metrics[metric]:.4g} on validation data; {left.kind}: "
        f"{left.metrics[metric]:.4g}, a difference of {abs(ours - theirs):.4g}"
    )
    return Final(kind=kept.kind, metrics=kept.metrics, others={left.kind: left.metrics})


def better(new: float, old: float | None, metric: str) -> bool:
    """Whether a metric has improved. What is not a number never has, and is worse than any that is."""
    if new != new:
        return False
    return old is None or old != old or (new < old if metric in SMALLER_IS_BETTER else new > old)
