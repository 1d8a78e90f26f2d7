"""Linear maps in mixed precision on a GPU, whose gradients come out as their weights are: in float32, at once.

Autocast makes the gradient of a weight in 16 bits and casts it, sums the gradient of a bias by a kernel that is slow for
tall matrices, and gives a ReLU passes of its own. Everything else is torch's.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from regard.attention.kernels.triton_available import TRITON_INSTALLED


def applied(layer: nn.Module, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b e"]:
    """`layer(x)`."""
    if type(layer) is nn.Linear and _mixed(x, layer.weight) and not hooked(layer):
        return linear(x, layer.weight, layer.bias)
    return layer(x)


def linear(
    x: Float[Tensor, "*b d"], weight: Float[Tensor, "e d"], bias: Float[Tensor, " e"] | None
) -> Float[Tensor, "*b e"]:
    """`F.linear(x, weight, bias)`."""
    if not _mixed(x, weight):
        return F.linear(x, weight, bias)
    return _Linear.apply(x, weight, bias, torch.get_autocast_dtype("cuda"))  # type: ignore[no-untyped-call]


def mixed(x: Tensor) -> bool:
    """Whether x is computed with in mixed precision on a GPU that has Triton. What is compiled goes its own way."""
    return (
        TRITON_INSTALLED
        and x.is_cuda
        and torch.is_autocast_enabled("cuda")
        and torch.get_autocast_dtype("cuda").itemsize == 2
        and x.numel() > 0
        and not torch.compiler.is_compiling()
    )


def _mixed(x: Tensor, weight: Tensor) -> bool:
    return mixed(x) and x.dtype != torch.float64 and weight.dtype == torch.float32


def rectified(layer: nn.Module, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b e"]:
    """`relu(layer(x))`."""
    if type(layer) is nn.Linear and layer.bias is not None and _mixed(x, layer.weight) and not hooked(layer):
        return _Rectified.apply(x, layer.weight, layer.bias, torch.get_autocast_dtype("cuda"))  # type: ignore[no-untyped-call]
    return F.relu(applied(layer, x))


def hooked(layer: nn.Module) -> bool:
    """Whether a layer has forward or backward hooks."""
    hooks = (
        layer._forward_hooks,
        layer._forward_pre_hooks,
        layer._backward_hooks,
        layer._backward_pre_hooks,
    )
    return any(hooks)


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
