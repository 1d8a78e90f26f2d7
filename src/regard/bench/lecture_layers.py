"""The layers of a lecture's table, without biases: each maps L vectors of width d to L of width d_v, here d_v = d.

| layer                | operations  | parameters             |
|----------------------|-------------|------------------------|
| self-attention       | L²·d_k      | 2·d·d_k + d·d_v        |
| … with an output map | L²·d_k      | 2·d·d_k + d·d_v + d_v² |
| recurrent            | L·d·d_v     | d·d_v + d_v²           |
| convolution          | L·k·d·d_v   | k·d·d_v                |
| dense over positions | L²·d·d_v    | L·d·d_v                |

The orders are the lecture's; `operations` counts all, also A V (L²·d_v) and the projections (L·d·d_k).
"""

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.attend import attend
from regard.attention.multihead import InProjection
from regard.bench.layers import KERNEL, DenseOverPositions, LayerKind, States, convolution


class OneHead(nn.Module):
    """softmax(Q Kᵀ/√d_k) V of one head, with three matrices, or four with an output map."""

    def __init__(self, width: int, key_width: int, *, output: bool) -> None:
        super().__init__()
        self.input = InProjection((width,) * 3, (key_width, key_width, width), affine=False)
        self.output = nn.Linear(width, width, bias=False) if output else nn.Identity()

    def forward(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        """What each position takes from the others."""
        return self.output(attend(*self.input.together(x)))


def lecture_kinds() -> list[LayerKind]:
    """The rows of the table, attention for d_k = d and d_k = d/8; the width must divide by 8."""
    return [
        *(_attention(share, output) for share in (1, 8) for output in (False, True)),
        LayerKind(
            name="recurrent",
            make=lambda _, d: States(
                nn.RNN(d, d, bias=False, batch_first=True)
            ),  # tanh(W x + U h), Elman 1990
            order="L·d·d_v",
            operations=lambda n, d: 4 * n * d * d,
            parameter_order="d·d_v + d_v²",
            parameters=lambda _, d: 2 * d * d,
            sequential="L",
            path="L",
        ),
        LayerKind(
            name=f"convolution, k = {KERNEL}",
            make=lambda _, d: convolution(d, affine=False),
            order="L·k·d·d_v",
            operations=lambda n, d: 2 * KERNEL * n * d * d,
            parameter_order="k·d·d_v",
            parameters=lambda _, d: KERNEL * d * d,
            path="L / k",
        ),
        LayerKind(
            name="dense over positions",
            make=lambda n, d: DenseOverPositions(n, d, affine=False),
            order="L²·d·d_v",
            exponent=2,
            operations=lambda n, d: 2 * n * n * d * d,
            parameter_order="L·d·d_v",
            parameters=lambda n, d: n * d * d,
            held=lambda n, d: n * d * d,
            path="1",
        ),
    ]


def _attention(share: int, output: bool) -> LayerKind:
    """One head with d_k = d / share."""
    key = "d" if share == 1 else f"d/{share}"
    return LayerKind(
        name=f"attention, d_k = {key}{' + output' if output else ''}",
        make=lambda _, d: OneHead(d, d // share, output=output),
        order="L²·d_k",
        exponent=2,
        operations=lambda n, d: (
            2 * n * d * (2 * d // share + d) + 2 * n * n * (d // share + d) + (2 * n * d * d if output else 0)
        ),
        parameter_order="2·d·d_k + d·d_v" + (" + d_v²" if output else ""),
        parameters=lambda _, d: 2 * d * (d // share) + d * d + (d * d if output else 0),
        path="1",
    )
