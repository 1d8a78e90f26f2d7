"""The state of a training: all that changes while it runs, and so all that a checkpoint has to hold."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import RegardError
from regard.runs.settings import Training
from regard.training.averaging import RunningMean
from regard.training.checkpoints import Checkpoint
from regard.training.optimiser import adamw
from regard.training.weights import install, weights_of


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How far a training has come."""

    step: int = 0  # updates made
    epoch: int = 0
    position: int = 0  # batches of this epoch that were used
    metrics: Mapping[str, float] = field(default_factory=dict)  # of the last evaluation
    best: Mapping[str, float] = field(default_factory=dict)  # of the best
    best_step: int = 0
    waited: int = 0  # evaluations since the best
    due: bool = False  # the evaluation after this update was interrupted, and comes first


class State:
    """A model, its optimiser, the running mean of its weights, and how far they have come."""

    def __init__(self, model: nn.Module, settings: Training) -> None:
        self.model = model
        self.optimiser = adamw(model, settings)
        self.mean = RunningMean(model, settings.averaging.ema) if settings.averaging.ema else None
        self.standing = Standing()
        names = {id(weight): name for name, weight in model.named_parameters()}
        self._names = [
            names[id(weight)] for group in self.optimiser.param_groups for weight in group["params"]
        ]

    def tensors(self) -> dict[str, Tensor]:
        """Everything but the standing, by name."""
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
        """The standing, as JSON takes it."""
        return asdict(self.standing)

    def astray(self) -> str | None:
        """A weight, or running mean of one, that is not finite, by its name; None if all are."""
        means = {} if self.mean is None else self.mean.means
        kept = weights_of(self.model) | {f"the running mean of {name}": mean for name, mean in means.items()}
        numbers = {name: tensor for name, tensor in kept.items() if tensor.is_floating_point()}
        sound = torch.stack([tensor.isfinite().all() for tensor in numbers.values()]).tolist()
        return next((name for name, each in zip(numbers, sound, strict=True) if not each), None)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Become what was kept, to the bit."""
        kept, name = checkpoint.tensors(), checkpoint.path.name
        install(self.model, _within("weights/", kept))
        self._restore_optimiser(_within("optimiser/", kept), name)
        if self.mean is not None:
            means = _within("mean/", kept)
            if means.keys() != self.mean.means.keys():
                raise RegardError(
                    f"{name} has no running mean to go on with: it was made with averaging.ema = 0"
                )
            self.mean.restore(means)
        torch.set_rng_state(kept["random/cpu"])
        if torch.cuda.is_available() and "random/cuda" in kept:
            torch.cuda.set_rng_state(kept["random/cuda"])
        about = checkpoint.about()
        self.standing = Standing(
            **{each.name: about[each.name] for each in fields(Standing) if each.name in about}
        )

    def _restore_optimiser(self, kept: Mapping[str, Tensor], name: str) -> None:
        numbers = {weight: number for number, weight in enumerate(self._names)}
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in kept.items():
            entry, _, weight = key.partition("/")
            if weight not in numbers:
                raise RegardError(
                    f"{name} has trained {weight}, which is frozen now: resume with the same recipe"
                )
            state.setdefault(numbers[weight], {})[entry] = value
        if kept:
            # What had no gradient yet has no moments; the rates and decays are those of the settings, not kept ones.
            self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": state})


def _within(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
