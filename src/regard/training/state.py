"""The state of a training: weights, their running mean, AdamW, and how far it has come: all that a checkpoint holds."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import RegardError
from regard.layers.embedding import Embedding, Learned
from regard.runs.checkpoints import Checkpoint, TrainingProgress
from regard.runs.settings import Training

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

    def gradients(self) -> list[Tensor]:
        """The gradients there are."""
        trained = (weight for group in self.optimiser.param_groups for weight in group["params"])
        return [weight.grad for weight in trained if weight.grad is not None]

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


def adamw(model: nn.Module, settings: Training) -> torch.optim.AdamW:
    """AdamW (Loshchilov 2019) over what is not frozen. What `decays` says decays, and nothing else.

    The fused form: one pass over the memory instead of a dozen, on CPU and GPU, and each number is updated independently,
    so that its answer does not depend on timing. ε = 10⁻⁹ is Vaswani's (2017, section 5.3).
    """
    decayed = decays(model)
    trained = [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]
    if not trained:
        raise RegardError("nothing to train: the model has no parameters, or all of them are frozen")
    groups = [
        {
            "params": [weight for name, weight in trained if name in decayed],
            "weight_decay": settings.weight_decay,
        },
        {"params": [weight for name, weight in trained if name not in decayed], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    return torch.optim.AdamW(groups, lr=settings.learning_rate, betas=settings.betas, eps=1e-9, fused=True)


def decays(model: nn.Module) -> set[str]:
    """The names of the weights that decay: matrices that multiply.

    Biases, gains and other vectors have nothing to gain from being small. Nor have embeddings, tied ones included:
    the row of a rare token would shrink at every update and grow only when the token is seen.
    """
    tables = {id(table) for part in model.modules() if (table := _table(part)) is not None}
    return {
        name for name, weight in model.named_parameters() if weight.ndim >= 2 and id(weight) not in tables
    }


def _table(part: nn.Module) -> Tensor | None:
    if isinstance(part, Embedding | Learned):
        return part.table
    return part.weight if isinstance(part, nn.Embedding) else None


def normalise_(gradients: list[Tensor], count: Float[Tensor, ""], *, clip: float = 0.0) -> Float[Tensor, ""]:
    """Turn summed gradients into means over `count`, no longer than `clip` (0: any), in place (Pascanu 2013).

    What comes back is the norm before clipping. Nothing here waits for a GPU.
    """
    summed = torch.nn.utils.get_total_norm(gradients)
    count = count.to(summed.dtype)
    norm = summed / count
    shorter = (clip / (norm + 1e-6)).clamp(max=1.0) if clip else torch.ones_like(norm)
    torch._foreach_mul_(gradients, shorter / count)
    return norm
