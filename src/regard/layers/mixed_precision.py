"""Modules for training in mixed precision on a GPU: products in 16 bits; weights, their gradients and sums in float32.

`optimise(model, for_="training", precision=…)` gives plain modules these classes: parameters, names and hooks stay. torch's
autocast makes the gradient of a weight in 16 bits and casts it, sums the gradient of a bias by a kernel that is slow for
tall matrices, and runs a ReLU as a pass of its own.
"""

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from regard.attention.kernels.triton_available import TRITON_INSTALLED
from regard.attention.multihead import InProjection
from regard.data.given import vectors
from regard.layers.blocks import Dropout, FeedForward, Layer, Residual, before

WIDEST = 8192  # features for which the kernels of a norm have space


class MixedPrecision:
    """A class that a module has while it is optimised for training. Nothing but the class and `precision` changes."""

    plain: ClassVar[type[nn.Module]]  # the class it had
    precision: torch.dtype


def become(part: nn.Module, kind: type[nn.Module], precision: torch.dtype | None = None) -> None:
    """Give a module another class; without a precision, the plain one."""
    # Not by nn.Module's own __setattr__, which first looks for parameters: training does this at every update.
    object.__setattr__(part, "__class__", kind)
    if precision is None:
        part.__dict__.pop("precision", None)
    else:
        part.__dict__["precision"] = precision


class MixedLinear(MixedPrecision, nn.Linear):
    """Wx + b with a product in 16 bits, and gradients of weight and bias in float32."""

    plain = nn.Linear

    def forward(self, input: Float[Tensor, "*b d"]) -> Float[Tensor, "*b e"]:
        """The same map at every position."""
        return mixed_linear(input, self.weight, self.bias, self.precision)


class RectifiedLinear(MixedPrecision, nn.Linear):
    """relu(Wx + b) in one product."""

    plain = nn.Linear

    def forward(self, input: Float[Tensor, "*b d"]) -> Float[Tensor, "*b e"]:
        """The same map at every position."""
        if input.numel() == 0:
            return F.relu(mixed_linear(input, self.weight, self.bias, self.precision))
        return _Rectified.apply(input, self.weight, self.bias, self.precision)  # type: ignore[no-untyped-call]


class MixedFeedForward(MixedPrecision, FeedForward):
    """W₂ relu(W₁x + b₁) + b₂, whose inner map is a `RectifiedLinear`."""

    plain = FeedForward

    def forward(self, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """The same map at every position."""
        x = vectors("x", x, self.width, of=self)
        return self.outer(self.dropout(self.inner(x)))


class MixedProjection(MixedPrecision, InProjection):
    """The maps to queries, keys and values."""

    plain = InProjection

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Wx + b, of a part of the matrix."""
        return mixed_linear(x, weight, bias, self.precision)


class MixedNorm(MixedPrecision, nn.LayerNorm):
    """A layer norm written in 16 bits, for outputs that only products read."""

    plain = nn.LayerNorm

    def forward(self, input: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:
        """The norm of every position."""
        from regard.layers.kernels.mixed_residual import forked

        return forked(input, self, self.precision)[1]


class ForkedNorm(MixedPrecision, nn.LayerNorm):
    """The norm of a `MixedResidual`: gives x too, so that the gradients of both are summed in its own kernel."""

    plain = nn.LayerNorm

    def forward(self, input: Float[Tensor, "*b d"]) -> tuple[Float[Tensor, "*b d"], Float[Tensor, "*b d"]]:  # type: ignore[override]
        """x, and its norm in 16 bits."""
        from regard.layers.kernels.mixed_residual import forked

        return forked(input, self, self.precision)


class AddedDropout(MixedPrecision, Dropout):
    """The dropout of a `MixedResidual`, and its sum: x + dropout(f) in one kernel."""

    plain = Dropout

    def forward(self, input: Float[Tensor, "*b d"], added: Float[Tensor, "*b d"]) -> Float[Tensor, "*b d"]:  # type: ignore[override]
        """In the dtype of x."""
        from regard.layers.kernels.mixed_residual import added as sum_

        return sum_(input, added, self.p if self.training else 0.0)


class MixedResidual(MixedPrecision, Residual):
    """x + dropout(f(norm(x))): x stays float32, f sees 16 bits."""

    plain = Residual

    def forward(self, x: Float[Tensor, "*b d"], layer: Layer) -> Float[Tensor, "*b d"]:
        """x, and what `layer` makes of it."""
        x, normed = self.norm(vectors("x", x, self.width, of=self))
        return self.dropout(x, self.depth(layer(normed)))


def norm_obstacle(norm: nn.Module) -> str | None:
    """Why a norm cannot be computed by the kernel of mixed precision; None where it can."""
    if type(norm) is not nn.LayerNorm or norm.weight is None or norm.bias is None:
        return f"its norm is no LayerNorm with weight and bias but {type(norm).__name__}"
    if norm.weight.ndim != 1 or norm.weight.numel() > WIDEST:
        return f"the kernel takes a norm over one axis of at most {WIDEST} features"
    return weight_obstacle(norm.weight)


def residual_obstacle(residual: Residual) -> str | None:
    """Why a residual cannot be a `MixedResidual`; None where it can."""
    if residual.placement is not before:
        return "its norm is not before the layer"
    if residual.depth.skip or residual.dropout.p >= 1.0:
        return "it has stochastic depth, or drops everything"
    return norm_obstacle(residual.norm)


def weight_obstacle(weight: Tensor) -> str | None:
    """Why there is no kernel of mixed precision for a weight; None where there is."""
    if not weight.is_cuda:
        return "torch's autocast computes it on a CPU"
    if not TRITON_INSTALLED:
        return "the kernels need Triton"
    return None if weight.dtype == torch.float32 else f"its weights are {weight.dtype}, not float32"


def mixed_linear(
    x: Float[Tensor, "*b d"],
    weight: Float[Tensor, "e d"],
    bias: Float[Tensor, " e"] | None,
    dtype: torch.dtype,
) -> Float[Tensor, "*b e"]:
    """Wx + b in this dtype."""
    if x.numel() == 0:  # no kernel runs on nothing
        return F.linear(x.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype))
    return _Linear.apply(x, weight, bias, dtype)  # type: ignore[no-untyped-call]


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, dtype):  # type: ignore[no-untyped-def]
        rows, narrow = x.reshape(-1, x.shape[-1]).to(dtype), weight.to(dtype)
        ctx.save_for_backward(rows, narrow)
        ctx.like = x.shape, x.dtype
        with torch.autocast("cuda", enabled=False):
            out = F.linear(rows, narrow, None if bias is None else bias.to(dtype))
        return out.view(*x.shape[:-1], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        from regard.attention.kernels.columns import column_sums

        slope = grad.reshape(-1, grad.shape[-1])
        return *_products(ctx, slope), column_sums(slope) if ctx.needs_input_grad[2] else None, None


class _Rectified(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, dtype):  # type: ignore[no-untyped-def]
        rows, narrow = x.reshape(-1, x.shape[-1]).to(dtype), weight.to(dtype)
        with torch.autocast("cuda", enabled=False):  # the product itself adds the bias and rectifies
            out = torch.ops.aten._addmm_activation(bias.to(dtype), rows, narrow.t())
        ctx.save_for_backward(rows, narrow, out)
        ctx.like = x.shape, x.dtype
        return out.view(*x.shape[:-1], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        from regard.attention.kernels.columns import gated_sums

        slope, to_bias = gated_sums(grad.reshape(-1, grad.shape[-1]), ctx.saved_tensors[2])
        return *_products(ctx, slope), to_bias, None


def _products(ctx, slope: Tensor) -> tuple[Tensor | None, Tensor | None]:  # type: ignore[no-untyped-def]
    """The gradients of input and weight."""
    (rows, narrow, *_), (shape, dtype) = ctx.saved_tensors, ctx.like
    to_x, to_weight = ctx.needs_input_grad[:2]
    return (
        (slope @ narrow).to(dtype).view(shape) if to_x else None,
        torch.mm(slope.t(), rows, out_dtype=torch.float32) if to_weight else None,
    )
