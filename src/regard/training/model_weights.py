"""The weights of a model by name, and means of them over time."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from regard.errors import RegardError


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
