"""Residual connections with a norm, written once in the three places a norm can stand."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

Layer = Callable[[Tensor], Tensor]
Placement = Callable[[Tensor, Layer, Layer], Tensor]


def before(x: Tensor, layer: Layer, norm: Layer) -> Tensor:
    """x + f(norm(x)): the sum is never normalised, so deep stacks train without warm-up (Xiong 2020)."""
    return x + layer(norm(x))


def after(x: Tensor, layer: Layer, norm: Layer) -> Tensor:
    """norm(x + f(x)), as the Transformer was published (Vaswani 2017, section 3.1)."""
    return norm(x + layer(x))


def inside(x: Tensor, layer: Layer, norm: Layer) -> Tensor:
    """x + norm(f(x)): what is added has a bounded size (Liu 2022, res-post-norm)."""
    return x + norm(layer(x))


class Residual(nn.Module):
    """A norm and a way around a layer. `norm` makes one from a width: nn.LayerNorm or nn.RMSNorm."""

    def __init__(
        self,
        width: int,
        *,
        placement: Placement = before,
        norm: Callable[[int], nn.Module] = nn.LayerNorm,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.placement = placement
        self.norm = norm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "*b d"], layer: Layer) -> Float[Tensor, "*b d"]:
        """x, and what `layer` makes of it."""
        return self.placement(x, lambda y: self.dropout(layer(y)), self.norm)
