"""The linear maps from what enters attention to queries, keys and values."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

Three = tuple[int, int, int]


class InProjection(nn.Module):
    """Q = W_q x, K = W_k y, V = W_v z: one matrix over another when x, y and z have one width, else three."""

    def __init__(self, inputs: Three, outputs: Three, *, affine: bool = True) -> None:
        super().__init__()
        self.outputs = outputs
        self.packed = len(set(inputs)) == 1
        if self.packed:
            self.all = nn.Linear(inputs[0], sum(outputs), bias=affine)
        else:
            self.query, self.key, self.value = (
                nn.Linear(wide, out, bias=affine) for wide, out in zip(inputs, outputs, strict=True)
            )
        with torch.no_grad():
            for weight, bias in self._parts():  # each map on its own, packed or not
                nn.init.xavier_uniform_(weight)
                if bias is not None:
                    nn.init.zeros_(bias)

    def together(self, x: Float[Tensor, "*batch n d"]) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of one input, in one product when the maps are one matrix."""
        if self.packed:
            query, key, value = torch.split(self.all(x), list(self.outputs), dim=-1)
            return query, key, value
        return self.queries(x), self.keys(x), self.values(x)

    def queries(self, x: Float[Tensor, "*batch q d"]) -> Tensor:
        """W_q x."""
        return self.linear(x, *self.asking)

    @property
    def asking(self) -> tuple[Tensor, Tensor | None]:
        """W_q, and its bias."""
        return self._parts()[0]

    def keys(self, x: Float[Tensor, "*batch k d"]) -> Tensor:
        """W_k x."""
        return self.linear(x, *self._parts()[1])

    def values(self, x: Float[Tensor, "*batch k d"]) -> Tensor:
        """W_v x."""
        return self.linear(x, *self._parts()[2])

    def memory(self, x: Float[Tensor, "*batch k d"]) -> tuple[Tensor, Tensor]:
        """Keys and values of one input, in one product when the maps are one matrix."""
        if not self.packed:
            return self.keys(x), self.values(x)
        asking = self.outputs[0]
        bias = None if self.all.bias is None else self.all.bias[asking:]
        key, value = torch.split(
            self.linear(x, self.all.weight[asking:], bias), list(self.outputs[1:]), dim=-1
        )
        return key, value

    def linear(self, x: Float[Tensor, "*batch n d"], weight: Tensor, bias: Tensor | None) -> Tensor:
        """Wx + b, of a part of the matrix."""
        return F.linear(x, weight, bias)

    def _parts(self) -> list[tuple[Tensor, Tensor | None]]:
        """Weight and bias of query, key and value; views where they are packed."""
        if not self.packed:
            return [(each.weight, each.bias) for each in (self.query, self.key, self.value)]
        weights = torch.split(self.all.weight, list(self.outputs))
        biases = (None,) * 3 if self.all.bias is None else torch.split(self.all.bias, list(self.outputs))
        return list(zip(weights, biases, strict=True))


def glorot(layer: nn.Linear) -> nn.Linear:
    """Start a layer as the projections start: Glorot's uniform weights, no bias."""
    nn.init.xavier_uniform_(layer.weight)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer
