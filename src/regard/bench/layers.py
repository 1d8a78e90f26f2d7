"""The kinds of layers whose cost is compared (Vaswani 2017, table 1): each maps n vectors of width d to n others.

| layer          | operations | sequential | longest path | numbers held |
|----------------|------------|------------|--------------|--------------|
| self-attention | n²·d       | 1          | 1            | n·d          |
| written out    | n²·d       | 1          | 1            | n²           |
| window         | n·w·d      | 1          | n / w        | n·d          |
| recurrent      | n·d²       | n          | n            | n·d          |
| convolution    | k·n·d²     | 1          | n / k        | n·d          |
| dense          | n·d²       | 1          | none         | n·d          |

*Written out* is self-attention that holds its weights. A path is how many steps lead from one position to another.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from einops import rearrange
from einops.layers.torch import Rearrange
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.attend import attend
from regard.attention.kernels.torch_kernels import block_of
from regard.attention.masks import window
from regard.attention.multihead import MultiHeadAttention
from regard.attention.weights import weigh
from regard.errors import RegardError
from regard.layers.blocks import FeedForward
from regard.layers.recurrence import Recurrence

WINDOW = 64  # w: a position sees those less than so many away
KERNEL = 3  # k: positions that a convolution sees
HIDDEN = 4  # hidden width of the dense map, over d
Count = Callable[[int, int], int]  # of a length n and a width d


def _vectors(n: int, d: int) -> int:
    """The numbers of n vectors."""
    return n * d


@dataclass(frozen=True, kw_only=True)
class LayerKind:
    """A kind of layer, and what theory says of it."""

    name: str
    make: Callable[[int], nn.Module]  # of a width
    order: str  # of its operations, as the table has it
    operations: Count  # multiplications and additions, forward
    path: str
    exponent: int = 1  # of n in the order
    sequential: str = "1"
    held: Count = _vectors  # numbers, up to a factor
    held_exponent: int = 1  # of n in that


def kinds() -> dict[str, LayerKind]:
    """All of them, by name."""
    every = (
        LayerKind(
            name="self-attention",
            make=lambda d: MultiHeadAttention(d, heads(d)),
            order="n²·d",
            exponent=2,
            operations=lambda n, d: _projections(n, d) + 4 * n * n * d,
            path="1",
        ),
        LayerKind(
            name="written out",
            make=lambda d: Mixing(d, lambda query, key, value: weigh(query, key) @ value),
            order="n²·d",
            exponent=2,
            operations=lambda n, d: _projections(n, d) + 4 * n * n * d,
            path="1",
            held=lambda n, d: heads(d) * n * n,
            held_exponent=2,
        ),
        LayerKind(
            name="window",
            make=lambda d: Mixing(d, lambda query, key, value: attend(query, key, value, window(WINDOW))),
            order="n·w·d",
            operations=lambda n, d: _projections(n, d) + 4 * n * _seen(n) * d,
            path="n / w",
        ),
        LayerKind(
            name="recurrent",
            make=States,
            order="n·d²",
            operations=lambda n, d: 16 * n * d * d,  # four gates, each of the input and of the state
            sequential="n",
            path="n",
        ),
        LayerKind(
            name="convolution",
            make=lambda d: nn.Sequential(
                Rearrange("b n d -> b d n"),
                nn.Conv1d(d, d, KERNEL, padding=KERNEL // 2),
                Rearrange("b d n -> b n d"),
            ),
            order="k·n·d²",
            operations=lambda n, d: 2 * KERNEL * n * d * d,
            path="n / k",
        ),
        LayerKind(
            name="dense",
            make=lambda d: FeedForward(d, HIDDEN * d),
            order="n·d²",
            operations=lambda n, d: 4 * HIDDEN * n * d * d,
            path="none",
        ),
    )
    return {kind.name: kind for kind in every}


def choose_kinds(names: list[str] | None) -> list[LayerKind]:
    """Those of these names; None: all."""
    every = kinds()
    unknown = next((name for name in names or [] if name not in every), None)
    if unknown is not None:
        raise RegardError(f"layer {unknown!r}: choose from {', '.join(every)}")
    return list(every.values()) if names is None else [every[name] for name in dict.fromkeys(names)]


def heads(width: int) -> int:
    """Eight heads, or as many as divide the width."""
    return math.gcd(8, width)


class Mixing(nn.Module):
    """Multi-head attention whose heads are mixed by any function of query, key and value."""

    def __init__(self, width: int, mix: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.attention, self.mix = MultiHeadAttention(width, heads(width)), mix

    def forward(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        """What each position takes from the others."""
        parts = [
            rearrange(part, "b n (h d) -> b h n d", h=self.attention.heads)
            for part in self.attention.input.together(x)
        ]
        return self.attention.output(rearrange(self.mix(*parts), "b h n d -> b n (h d)"))


class States(nn.Module):
    """The states of an LSTM."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.recurrence = Recurrence(width, width, cell="lstm")

    def forward(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        """One at every position."""
        return self.recurrence(x)[0]


def _seen(n: int) -> int:
    """Keys that a query is multiplied with under the window: those around its block, or all where these are few."""
    around = block_of(1 - WINDOW, WINDOW - 1) + 2 * (WINDOW - 1)
    return n if n < 2 * around else around


def _projections(n: int, d: int) -> int:
    """Query, key, value and output."""
    return 8 * n * d * d
