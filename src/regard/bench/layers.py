"""The kinds of layers whose cost is compared (Vaswani 2017, table 1): each maps n vectors of width d to n others.

| layer                | operations | sequential | longest path | numbers held | parameters      |
|----------------------|------------|------------|--------------|--------------|-----------------|
| self-attention       | n²·d       | 1          | 1            | n·d          | 4·d² + 4·d      |
| written out          | n²·d       | 1          | 1            | n²           | 4·d² + 4·d      |
| window               | n·w·d      | 1          | n / w        | n·d          | 4·d² + 4·d      |
| recurrent            | n·d²       | n          | n            | n·d          | 8·d² + 8·d      |
| convolution          | k·n·d²     | 1          | n / k        | n·d          | k·d² + d        |
| dense over positions | n²·d²      | 1          | 1            | n·d²         | n·d² + d        |
| feed-forward         | n·d²       | 1          | none         | n·d          | 8·d² + 5·d      |

*Written out* is self-attention that holds its weights. *Feed-forward* maps each position by itself. A path is how many
steps lead from one position to another.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from einops import rearrange
from einops.layers.torch import Rearrange
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

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
HIDDEN = 4  # hidden width of the feed-forward map, over d
Count = Callable[[int, int], int]  # of a length n and a width d


def _vectors(n: int, d: int) -> int:
    """The numbers of n vectors."""
    return n * d


@dataclass(frozen=True, kw_only=True)
class LayerKind:
    """A kind of layer, and what theory says of it."""

    name: str
    make: Callable[[int, int], nn.Module]  # of a length n and a width d
    order: str  # of its operations, as the table has it
    operations: Count  # multiplications and additions, forward
    parameter_order: str
    parameters: Count
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
            make=lambda _, d: MultiHeadAttention(d, heads(d)),
            order="n²·d",
            exponent=2,
            operations=lambda n, d: _projections(n, d) + 4 * n * n * d,
            parameter_order="4·d² + 4·d",
            parameters=lambda _, d: 4 * d * d + 4 * d,
            path="1",
        ),
        LayerKind(
            name="written out",
            make=lambda _, d: Mixing(d, lambda query, key, value: weigh(query, key) @ value),
            order="n²·d",
            exponent=2,
            operations=lambda n, d: _projections(n, d) + 4 * n * n * d,
            parameter_order="4·d² + 4·d",
            parameters=lambda _, d: 4 * d * d + 4 * d,
            path="1",
            held=lambda n, d: heads(d) * n * n,
            held_exponent=2,
        ),
        LayerKind(
            name="window",
            make=lambda _, d: Mixing(d, lambda query, key, value: attend(query, key, value, window(WINDOW))),
            order="n·w·d",
            operations=lambda n, d: _projections(n, d) + 4 * n * _seen(n) * d,
            parameter_order="4·d² + 4·d",
            parameters=lambda _, d: 4 * d * d + 4 * d,
            path="n / w",
        ),
        LayerKind(
            name="recurrent",
            make=lambda _, d: States(Recurrence(d, d, cell="lstm")),
            order="n·d²",
            operations=lambda n, d: 16 * n * d * d,  # four gates, each of the input and of the state
            parameter_order="8·d² + 8·d",
            parameters=lambda _, d: 8 * d * d + 8 * d,
            sequential="n",
            path="n",
        ),
        LayerKind(
            name="convolution",
            make=lambda _, d: convolution(d),
            order="k·n·d²",
            operations=lambda n, d: 2 * KERNEL * n * d * d,
            parameter_order="k·d² + d",
            parameters=lambda _, d: KERNEL * d * d + d,
            path="n / k",
        ),
        LayerKind(
            name="dense over positions",
            make=DenseOverPositions,
            order="n²·d²",
            exponent=2,
            operations=lambda n, d: 2 * n * n * d * d,
            parameter_order="n·d² + d",
            parameters=lambda n, d: n * d * d + d,
            held=lambda n, d: n * d * d,  # torch's convolution reorders the weights
            path="1",
        ),
        LayerKind(
            name="feed-forward",
            make=lambda _, d: FeedForward(d, HIDDEN * d),
            order="n·d²",
            operations=lambda n, d: 4 * HIDDEN * n * d * d,
            parameter_order="8·d² + 5·d",
            parameters=lambda _, d: 2 * HIDDEN * d * d + (HIDDEN + 1) * d,
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


def convolution(width: int, *, affine: bool = True) -> nn.Module:
    """A convolution over positions."""
    layer = nn.Conv1d(width, width, KERNEL, padding=KERNEL // 2, bias=affine)
    return nn.Sequential(Rearrange("b n d -> b d n"), layer, Rearrange("b d n -> b n d"))


class States(nn.Module):
    """The states of a recurrence, without its last one."""

    def __init__(self, recurrence: nn.Module) -> None:
        super().__init__()
        self.recurrence = recurrence

    def forward(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        """One at every position."""
        states: Tensor = self.recurrence(x)[0]
        return states


class DenseOverPositions(nn.Module):
    """y_i = W [x_i, x_{i+1}, …, x_n, x_1, …, x_{i−1}]: a dense map of the whole sequence, the same W seen from each position.

    It is a convolution as wide as the sequence. With a W of its own for each position it would have n times the weights.
    """

    def __init__(self, length: int, width: int, *, affine: bool = True) -> None:
        super().__init__()
        # As torch.nn.Linear starts a map of n·d features.
        most = 1 / math.sqrt(length * width)
        self.weight = nn.Parameter(torch.empty(width, width, length).uniform_(-most, most))
        self.bias = nn.Parameter(torch.zeros(width)) if affine else None

    def forward(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        """A vector for every position, of all of them."""
        around = torch.cat([x, x[:, :-1]], dim=1)
        return F.conv1d(around.mT, self.weight, self.bias).mT


def _seen(n: int) -> int:
    """Keys that a query is multiplied with under the window: those around its block, or all where these are few."""
    around = block_of(1 - WINDOW, WINDOW - 1) + 2 * (WINDOW - 1)
    return n if n < 2 * around else around


def _projections(n: int, d: int) -> int:
    """Query, key, value and output."""
    return 8 * n * d * d
