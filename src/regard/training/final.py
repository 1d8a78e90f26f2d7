"""The final weights: which of those that a training could end with it does end with."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from torch import Tensor, nn

from regard.training.checkpoint_retention import CheckpointRetention
from regard.training.distribution import World
from regard.training.model_weights import install, weights_of
from regard.training.state import TrainingState

SMALLER_IS_BETTER = ("loss", "perplexity", "wer", "cer")

Measure = Callable[[], dict[str, float]]  # the metrics of the weights in the model


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
    world.spread(state.model)
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
        kept, count = _copied(state.model), 0
        if world.first:
            weights, count = retention.mean(state.progress.step, notices)
            install(state.model, weights)
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


def _copied(model: nn.Module) -> dict[str, Tensor]:
    return {name: weight.clone() for name, weight in weights_of(model).items()}
