"""Linear maps in mixed precision on a GPU, whose gradients come out as their weights are: in float32, at once.

Autocast makes the gradient of a weight in 16 bits and casts it, and sums the gradient of a bias by a kernel that is slow for
tall matrices. Everything else is torch's.
"""

import importlib.util

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

_TRITON = importlib.util.find_spec("triton") is not None


def applied(layer: nn.Module, x: Float[Tensor, "*b d"]) -> Float[Tensor, "*b e"]:
    """`layer(x)`."""
    if type(layer) is not nn.Linear or layer._forward_hooks or layer._forward_pre_hooks:
        return layer(x)
    return linear(x, layer.weight, layer.bias)


def linear(
    x: Float[Tensor, "*b d"], weight: Float[Tensor, "e d"], bias: Float[Tensor, " e"] | None
) -> Float[Tensor, "*b e"]:
    """x Wᵀ + b."""
    if not _mixed(x, weight):
        return F.linear(x, weight, bias)
    return _Linear.apply(x, weight, bias, torch.get_autocast_dtype("cuda"))  # type: ignore[no-untyped-call]


def _mixed(x: Tensor, weight: Tensor) -> bool:
    return (
        _TRITON
        and x.is_cuda
        and torch.is_autocast_enabled("cuda")
        and torch.get_autocast_dtype("cuda").itemsize == 2
        and x.dtype != torch.float64
        and weight.dtype == torch.float32
        and x.numel() > 0
        and not torch.compiler.is_compiling()
    )


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

        rows, narrow = ctx.saved_tensors
        (shape, dtype), slope = ctx.like, grad.reshape(-1, grad.shape[-1])
        to_x, to_weight, to_bias = ctx.needs_input_grad[:3]
        return (
            (slope @ narrow).to(dtype).view(shape) if to_x else None,
            torch.mm(slope.t(), rows, out_dtype=torch.float32) if to_weight else None,
            column_sums(slope) if to_bias else None,
            None,
        )
