"""Dropout whose random numbers are cheap on a CPU."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

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
