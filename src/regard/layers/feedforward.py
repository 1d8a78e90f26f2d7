"""Feed-forward maps: what a block does to each position by itself."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.projection import glorot
from regard.data.given import vectors, whole
from regard.layers.dropout import Dropout


class FeedForward(nn.Module):
    """W₂ f(W₁x + b₁) + b₂, with f = ReLU (Vaswani 2017, eq. 2), or F.gelu, or any other."""

    def __init__(
        self,
        width: int,
        hidden: int,
        *,
        activation: Callable[[Tensor], Tensor] = F.relu,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.width = whole("width", width, least=1)
        whole("hidden", hidden, least=1)
        self.inner = glorot(nn.Linear(width, hidden))
        self.outer = glorot(nn.Linear(hidden, width))
        self.activation = activation
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """The same map at every position."""
        x = vectors("x", x, self.width, of=self)
        return self.outer(self.dropout(self.activation(self.inner(x))))


class SwiGLU(nn.Module):
    """W₃ (swish(W₁x) ⊙ W₂x), without biases (Shazeer 2020, eq. 6)."""

    def __init__(self, width: int, hidden: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.width = whole("width", width, least=1)
        whole("hidden", hidden, least=1)
        self.gate = glorot(nn.Linear(width, hidden, bias=False))
        self.inner = glorot(nn.Linear(width, hidden, bias=False))
        self.outer = glorot(nn.Linear(hidden, width, bias=False))
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """The same map at every position."""
        x = vectors("x", x, self.width, of=self)
        return self.outer(self.dropout(F.silu(self.gate(x)) * self.inner(x)))
