"""The state of a training: all that changes while it runs, and so all that a checkpoint has to hold."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace

import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.runs.checkpoints import Checkpoint, CheckpointRetention, TrainingProgress
from regard.runs.settings import Training
from regard.training.distribution import World
from regard.training.optimiser import adamw

_MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # what AdamW keeps of a weight


class TrainingState:
    """A model, its optimiser, the running mean of its weights, and how far they have come."""

    def __init__(self, model: nn.Module, settings: Training) -> None:
        self.model = model
        self.optimiser = adamw(model, settings)
        self.mean = RunningMean(model, settings.averaging.ema) if settings.averaging.ema else None
        self.progress = TrainingProgress()
        names = {id(weight): name for name, weight in model.named_parameters()}
        self._names = [
            names[id(weight)] for group in self.optimiser.param_groups for weight in group["params"]
        ]

    def tensors(self) -> dict[str, Tensor]:
        """Everything but the progress, by name."""
        kept = {f"weights/{name}": weight for name, weight in weights_of(self.model).items()}
        for number, entries in self.optimiser.state_dict()["state"].items():
            for entry, value in entries.items():
                kept[f"optimiser/{entry}/{self._names[number]}"] = value
        if self.mean is not None:
            kept |= {f"mean/{name}": mean for name, mean in self.mean.means.items()}
        kept["random/cpu"] = torch.get_rng_state()
        if torch.cuda.is_available():
            kept["random/cuda"] = torch.cuda.get_rng_state()
        return kept

    def astray(self) -> str | None:
        """A weight, or running mean of one, that is not finite, by its name; None if all are."""
        means = {} if self.mean is None else self.mean.means
        kept = weights_of(self.model) | {f"the running mean of {name}": mean for name, mean in means.items()}
        numbers = {name: tensor for name, tensor in kept.items() if tensor.is_floating_point()}
        sound = torch.stack([tensor.isfinite().all() for tensor in numbers.values()]).tolist()
        return next((name for name, each in zip(numbers, sound, strict=True) if not each), None)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Become what was kept, to the bit. Contents that are no training's are refused, whatever their digest."""
        kept, progress, name = checkpoint.tensors(), checkpoint.progress(), checkpoint.path.name
        drawn = kept.get("random/cpu")
        if drawn is None or drawn.dtype != torch.uint8 or drawn.shape != torch.get_rng_state().shape:
            raise checkpoint.foreign("has no state of the random numbers to go on with")
        install(self.model, _within("weights/", kept))
        self._restore_optimiser(checkpoint, _within("optimiser/", kept))
        if self.mean is not None:
            means = _within("mean/", kept)
            if means.keys() != self.mean.means.keys():
                raise RegardError(
                    f"{name} has no running mean to go on with: it was made with averaging.ema = 0"
                )
            for each, mean in self.mean.means.items():
                same_shape(each, mean, means[each])
            self.mean.restore(means)
        try:
            torch.set_rng_state(drawn)
            if torch.cuda.is_available() and "random/cuda" in kept:
                torch.cuda.set_rng_state(kept["random/cuda"])
        except (RuntimeError, TypeError):
            raise checkpoint.foreign("has no state of the random numbers to go on with") from None
        self.progress = progress

    def _restore_optimiser(self, checkpoint: Checkpoint, kept: Mapping[str, Tensor]) -> None:
        numbers = {weight: number for number, weight in enumerate(self._names)}
        parameters = [each for group in self.optimiser.param_groups for each in group["params"]]
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in kept.items():
            entry, _, weight = key.partition("/")
            if weight not in numbers:
                raise RegardError(
                    f"{checkpoint.path.name} has trained {weight}, which is frozen now: resume with the same recipe"
                )
            shape = torch.Size() if entry == "step" else parameters[numbers[weight]].shape
            if entry not in _MOMENTS or value.shape != shape or not value.is_floating_point():
                raise checkpoint.foreign(f"keeps {entry} of {weight} as {list(value.shape)}")
            state.setdefault(numbers[weight], {})[entry] = value
        for number, entries in state.items():
            if entries.keys() != {*_MOMENTS}:
                raise checkpoint.foreign(f"keeps {', '.join(entries)} of {self._names[number]}")
        if kept:
            # What had no gradient yet has no moments; the rates and decays are those of the settings, not kept ones.
            self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": state})


def _within(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and kept buffers by name, not copied. What is tied is there once, under its first name."""
    first: dict[int, str] = {}
    state = model.state_dict(keep_vars=True)
    return {name: x.detach() for name, x in state.items() if first.setdefault(id(x), name) == name}


@torch.no_grad()
def install(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Put weights into a model, in place. Either all fit, or nothing changes."""
    own = weights_of(model)
    if own.keys() != weights.keys():
        missing, unknown = sorted(own.keys() - weights.keys()), sorted(weights.keys() - own.keys())
        raise RegardError(f"these are another model's weights: without {missing[:5]}, with {unknown[:5]}")
    for name, mine in own.items():
        same_shape(name, mine, weights[name])
    for name, mine in own.items():
        mine.copy_(weights[name])


def same_shape(name: str, mine: Tensor, theirs: Tensor) -> None:
    """Refuse a tensor that does not fit."""
    if mine.shape != theirs.shape:
        raise RegardError(
            f"{name} is {list(mine.shape)} here and {list(theirs.shape)} in the weights given: the models differ"
        )


class RunningMean:
    """An exponential mean of the weights after every update.

    m_t = Σ_s d^(t-s) w_s / Σ_s d^(t-s), kept as m_t = m_{t-1} + (w_t - m_{t-1}) (1 - d) / (1 - d^t): no trace of
    the first random weights is in it, however short the run (the correction of Adam, Kingma 2015, section 3).
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        if not 0 < decay < 1:
            raise RegardError(f"averaging.ema = {decay}: it keeps this much of itself, such as 0.999")
        self.decay = decay
        self._weights = dict(model.named_parameters())
        self.means = {name: torch.zeros_like(weight) for name, weight in self._weights.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the weights as they are after this update, counted from 1."""
        share = (1 - self.decay) / (1 - self.decay**step)
        torch._foreach_lerp_(list(self.means.values()), list(self._weights.values()), share)

    @torch.no_grad()
    def restore(self, means: Mapping[str, Tensor]) -> None:
        """Go on from means that were kept."""
        for name, mean in self.means.items():
            mean.copy_(means[name])

    @torch.no_grad()
    def install(self) -> None:
        """Put the means into the model, for good."""
        torch._foreach_copy_(list(self._weights.values()), list(self.means.values()))

    @contextmanager
    def installed(self) -> Iterator[None]:
        """The means in the model, and the weights put back afterwards, to the bit."""
        kept = [weight.detach().clone() for weight in self._weights.values()]
        self.install()
        try:
            yield
        finally:
            with torch.no_grad():
                torch._foreach_copy_(list(self._weights.values()), kept)


def mean_of(several: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several sets of weights (the paper's averaging of checkpoints; Vaswani 2017, section 6.1).

    Summed in double precision, so that the order does not matter. What is no fraction, such as a counter, is taken
    from the last set.
    """
    if not several:
        raise RegardError("a mean of no weights: there is no checkpoint to average")
    means = {}
    for name, last in several[-1].items():
        if last.is_floating_point():
            means[name] = torch.stack([weights[name].double() for weights in several]).mean(0).to(last.dtype)
        else:
            means[name] = last
    return means


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
