"""Linear maps for answering alone: weights packed once for the CPU, in float32, bfloat16 or 8-bit integers.

They hold no parameters and pass no gradients. What comes in and goes out is float32.
"""

from abc import ABC, abstractmethod
from functools import cached_property

import torch
from jaxtyping import Float, Integer
from torch import Tensor, nn

from regard.attention.kernels.native import Kernels, in_panels, native
from regard.errors import RegardError

_TINY = 1e-30  # in the place of the largest number of a row of zeros, which divides its numbers


class Lowered(nn.Module, ABC):
    """Wx + b over the last axis, with a W that was packed when the layer was made."""

    def __init__(self, weight: Float[Tensor, "out in"], bias: Float[Tensor, " out"] | None) -> None:
        super().__init__()
        self.out = weight.shape[0]
        # Plain attributes: buffers are looked up slowly, and packed weights can neither move nor be saved.
        self.bias = None if bias is None else bias.detach().float().clone()

    def forward(self, x: Float[Tensor, "*b in"]) -> Float[Tensor, "*b out"]:
        """The same map at every position."""
        return self.rows(x.reshape(-1, x.shape[-1])).view(*x.shape[:-1], self.out)

    @abstractmethod
    def rows(self, x: Float[Tensor, "r in"]) -> Float[Tensor, "r out"]:
        """The map of each row."""


class Float32Linear(Lowered):
    """The map as it is, in the layout in which oneDNN multiplies."""

    def __init__(self, weight: Float[Tensor, "out in"], bias: Float[Tensor, " out"] | None) -> None:
        super().__init__(weight, bias)
        self.weight = _reordered(weight.detach().float())

    def rows(self, x: Float[Tensor, "r in"]) -> Float[Tensor, "r out"]:
        """One product."""
        return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")


class Bfloat16Linear(Lowered):
    """Weights and inputs with 8 bits of mantissa; the sums are kept in float32 and rounded once."""

    def __init__(self, weight: Float[Tensor, "out in"], bias: Float[Tensor, " out"] | None) -> None:
        super().__init__(weight, bias)
        self.weight = _reordered(weight.detach().bfloat16())

    def rows(self, x: Float[Tensor, "r in"]) -> Float[Tensor, "r out"]:
        """One product, and the bias in float32."""
        mapped = torch.ops.mkldnn._linear_pointwise(x.bfloat16(), self.weight, None, "none", [], "").float()
        return mapped if self.bias is None else mapped.add_(self.bias)


class Int8Linear(Lowered):
    """Integers of 8 bits: W ≈ diag(scale) · Q with one scale an output, x ≈ largest / 127 · q with one a row.

    The products of integers are summed as integers, so a row's result depends on that row alone, to the bit, however
    many rows there are. A row of zeros stays one. Where it `rectifies`, it maps max(x, 0), whose largest number it
    looks for anyway.
    """

    rectifies = False

    def __init__(self, weight: Float[Tensor, "out in"], bias: Float[Tensor, " out"] | None) -> None:
        super().__init__(weight, bias)
        weight = weight.detach().float()
        if not bool(weight.isfinite().all()):
            raise RegardError("precision='int8': the weights hold inf or NaN, which no integer stands for")
        scale = weight.abs().amax(-1).clamp_min(_TINY) / 127
        whole = (weight / scale[:, None]).round().to(torch.int8)
        self.whole = whole
        self.scale = scale / 127  # 127 from the rows too
        self.zeros = torch.zeros(self.out, dtype=torch.long)
        self.most = torch.tensor(127.0)
        compiled = native()
        _ = self.panels if compiled is not None and compiled.multiplies else self.packed

    @cached_property
    def packed(self) -> Tensor:
        """The weights as oneDNN multiplies them."""
        return torch.ops.onednn.qlinear_prepack(self.whole, None)

    @cached_property
    def panels(self) -> Tensor:
        """The weights as the compiled kernel multiplies them."""
        return in_panels(self.whole)

    def rows(self, x: Float[Tensor, "r in"]) -> Float[Tensor, "r out"]:
        """Round, multiply integers, scale back. Each step rounds once, so that no compiler can fuse two of them."""
        compiled = native()
        if compiled is not None:
            return self._compiled(x, compiled)
        x, size = (x.relu(),) * 2 if self.rectifies else (x, x.abs())
        largest = size.amax(-1, keepdim=True).clamp_min_(_TINY)
        bytes_ = (x * torch.div(self.most, largest)).add_(128.5).to(torch.uint8)  # 1 … 255, where 128 is 0
        if x.shape[0] == 1:
            summed = torch._int_mm((bytes_ ^ 128).view(torch.int8), self.whole.t())
            mapped = summed.float().mul_(self.scale)
        else:
            mapped = self._multiplied(bytes_)
        mapped.mul_(largest)
        return mapped if self.bias is None else mapped.add_(self.bias)

    def _compiled(self, x: Float[Tensor, "r in"], compiled: Kernels) -> Float[Tensor, "r out"]:
        """The same to the bit, in fewer passes."""
        if compiled.multiplies:
            return compiled.int8_linear(
                x, self.panels, self.scale, self.bias, tiny=_TINY, rectified=self.rectifies
            )
        alone = x.shape[0] == 1
        bytes_, largest = compiled.quantise(x, tiny=_TINY, signed=alone, rectified=self.rectifies)
        if alone:
            return compiled.finish_whole(
                torch._int_mm(bytes_, self.whole.t()), self.scale, largest, self.bias
            )
        return compiled.finish(self._multiplied(bytes_), largest, self.bias)

    def _multiplied(self, bytes_: Integer[Tensor, "r in"]) -> Float[Tensor, "r out"]:
        return torch.ops.onednn.qlinear_pointwise(
            bytes_,
            1.0,
            128,
            self.packed,
            self.scale,
            self.zeros,
            None,
            1.0,
            0,
            torch.float32,
            "none",
            [],
            "",
        )


KINDS: dict[str, type[Lowered]] = {"float32": Float32Linear, "bf16": Bfloat16Linear, "int8": Int8Linear}


def packable() -> bool:
    """Whether this torch can pack weights."""
    return bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]


def _reordered(weight: Tensor) -> Tensor:
    return torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), None)
