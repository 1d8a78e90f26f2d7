"""The state of a training: all that changes while it runs, and so all that a checkpoint has to hold."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.runs.settings import Training
from regard.runs.tensor_file import Checkpoint
from regard.training.model_weights import RunningMean, install, same_shape, weights_of
from regard.training.optimiser import adamw

_MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # what AdamW keeps of a weight
_OTHERS = "it was not written by this training; move it away to resume from an earlier one"


@dataclass(frozen=True, kw_only=True)
class TrainingProgress:
    """How far a training has come."""

    step: int = 0  # updates made
    epoch: int = 0
    position: int = 0  # batches of this epoch that were used
    metrics: Mapping[str, float] = field(default_factory=dict)  # of the last evaluation
    best: Mapping[str, float] = field(default_factory=dict)  # of the best
    best_step: int = 0
    waited: int = 0  # evaluations since the best
    due: bool = False  # the evaluation after this update was interrupted, and comes first


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

    def about(self) -> dict[str, Any]:
        """The progress, as JSON takes it."""
        return asdict(self.progress)

    def astray(self) -> str | None:
        """A weight, or running mean of one, that is not finite, by its name; None if all are."""
        means = {} if self.mean is None else self.mean.means
        kept = weights_of(self.model) | {f"the running mean of {name}": mean for name, mean in means.items()}
        numbers = {name: tensor for name, tensor in kept.items() if tensor.is_floating_point()}
        sound = torch.stack([tensor.isfinite().all() for tensor in numbers.values()]).tolist()
        return next((name for name, each in zip(numbers, sound, strict=True) if not each), None)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Become what was kept, to the bit. Contents that are no training's are refused, whatever their digest."""
        kept, name = checkpoint.tensors(), checkpoint.path.name
        progress = _progress(checkpoint.about(), name)
        drawn = kept.get("random/cpu")
        if drawn is None or drawn.dtype != torch.uint8 or drawn.shape != torch.get_rng_state().shape:
            raise RegardError(f"{name} has no state of the random numbers to go on with: {_OTHERS}")
        install(self.model, _within("weights/", kept))
        self._restore_optimiser(_within("optimiser/", kept), name)
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
            raise RegardError(f"{name} has no state of the random numbers to go on with: {_OTHERS}") from None
        self.progress = progress

    def _restore_optimiser(self, kept: Mapping[str, Tensor], name: str) -> None:
        numbers = {weight: number for number, weight in enumerate(self._names)}
        parameters = [each for group in self.optimiser.param_groups for each in group["params"]]
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in kept.items():
            entry, _, weight = key.partition("/")
            if weight not in numbers:
                raise RegardError(
                    f"{name} has trained {weight}, which is frozen now: resume with the same recipe"
                )
            shape = torch.Size() if entry == "step" else parameters[numbers[weight]].shape
            if entry not in _MOMENTS or value.shape != shape or not value.is_floating_point():
                raise RegardError(f"{name} keeps {entry} of {weight} as {list(value.shape)}: {_OTHERS}")
            state.setdefault(numbers[weight], {})[entry] = value
        for number, entries in state.items():
            if entries.keys() != {*_MOMENTS}:
                raise RegardError(f"{name} keeps {', '.join(entries)} of {self._names[number]}: {_OTHERS}")
        if kept:
            # What had no gradient yet has no moments; the rates and decays are those of the settings, not kept ones.
            self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": state})


def _progress(about: Mapping[str, Any], name: str) -> TrainingProgress:
    try:
        known = {each.name: about[each.name] for each in fields(TrainingProgress) if each.name in about}
        found = TrainingProgress(**known)
        counts = (found.step, found.epoch, found.position, found.best_step, found.waited)
        values = [*found.metrics.items(), *found.best.items()]
    except (TypeError, AttributeError):
        raise RegardError(f"{name} does not say how far its training was: {_OTHERS}") from None
    if "step" not in about or not all(type(each) is int and each >= 0 for each in counts):
        raise RegardError(f"{name} counts {list(counts)}: {_OTHERS}")
    if not all(type(value) in (int, float) for _, value in values):
        raise RegardError(f"{name} has metrics that are no numbers: {_OTHERS}")
    return found


def _within(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
