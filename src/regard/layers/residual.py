"""Residual connections with a norm, with the norm in one of three places."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.given import vectors, whole
from regard.errors import RegardError

Layer = Callable[[Tensor], Tensor]
Placement = Callable[[Tensor, Layer, Layer, Layer], Tensor]  # of x, f, norm, and what thins out the addition


def _whole(x: Tensor) -> Tensor:
    return x


def before(x: Tensor, layer: Layer, norm: Layer, thin: Layer = _whole) -> Tensor:
    """x + f(norm(x)): the sum is never normalised, so deep stacks train without warm-up (Xiong 2020)."""
    return x + thin(layer(norm(x)))


def after(x: Tensor, layer: Layer, norm: Layer, thin: Layer = _whole) -> Tensor:
    """norm(x + f(x)), as the Transformer was published (Vaswani 2017, section 3.1)."""
    return norm(x + thin(layer(x)))


def inside(x: Tensor, layer: Layer, norm: Layer, thin: Layer = _whole) -> Tensor:
    """x + norm(f(x)): what is added has a bounded size (Liu 2022, res-post-norm)."""
    return x + thin(norm(layer(x)))


class StochasticDepth(nn.Module):
    """In training, 0 for a share `skip` of the samples and f / (1 − skip) for the others (Huang 2016, section 3).

    Huang keeps what is added as it is and shrinks it when testing; the two differ by a factor alone.
    """

    def __init__(self, skip: float) -> None:
        super().__init__()
        if not 0.0 <= skip < 1.0:
            raise RegardError(
                f"skip={skip}: the share of samples that go around a layer is from 0 to below 1"
            )
        self.skip = skip

    def forward(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """A sample is a row of the first axis."""
        if not self.training or self.skip == 0.0:
            return x
        kept = x.new_empty(x.shape[0], *[1] * (x.ndim - 1)).bernoulli_(1 - self.skip)
        return x * (kept / (1 - self.skip))


class Residual(nn.Module):
    """A norm and a way around a layer. `norm` makes one from a width: nn.LayerNorm or nn.RMSNorm."""

    def __init__(
        self,
        width: int,
        *,
        placement: Placement = before,
        norm: Callable[[int], nn.Module] = nn.LayerNorm,
        dropout: float = 0.0,
        skip: float = 0.0,  # the share of samples for which the layer is left out in training
    ) -> None:
        super().__init__()
        self.width = whole("width", width, least=1)
        self.placement = placement
        self.norm = norm(width)
        self.dropout = Dropout(dropout)
        self.depth = StochasticDepth(skip)

    def forward(self, x: Float[Tensor, "*b d"], layer: Layer) -> Float[Tensor, "*b d"]:
        """x, and what `layer` makes of it."""
        x = vectors("x", x, self.width, of=self)
        return self.placement(x, lambda y: self.dropout(layer(y)), self.norm, self.depth)


_STEPS = 1 << 16


class Dropout(nn.Dropout):
    """In training, 0 for a share `p` of the numbers and x / (1 − p) for the others (Srivastava 2014).

    torch draws a float for each number on a CPU, which takes longer than the products around it. Here sixteen random
    bits decide, so `p` is taken to the nearest 1/65536, and what is left is divided by exactly what is left.
    """

    def forward(self, input: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
        """x, thinned out."""
        if not self.training or self.p == 0.0:
            return input
        if input.device.type != "cpu":
            return F.dropout(input, self.p, self.training, self.inplace)
        dropped = min(round(self.p * _STEPS), _STEPS)
        if dropped == _STEPS:
            return input * 0.0
        count = input.numel()
        bits = torch.empty((count + 3) // 4, dtype=torch.int64).random_(-(1 << 63), None).view(torch.int16)
        kept = (bits[:count] >= dropped - _STEPS // 2).view(input.shape)
        return input * kept.to(input.dtype).mul_(_STEPS / (_STEPS - dropped))
