"""Additive attention on a GPU without its weights: the Triton kernels as operators that torch knows.

Registered with shapes and gradients, so that torch.compile and torch.export take each as one step. Triton itself is
imported when a kernel first runs, and nothing here needs it before.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.kernels.torch_kernels import four_axes, spread
from regard.attention.kernels.triton_available import TRITON_INSTALLED, TRITON_INTERPRETED

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def obstacle(device: torch.device, dtype: torch.dtype) -> str | None:
    """Why the Triton kernels cannot compute this, or None."""
    if device.type != "cuda" and not (device.type == "cpu" and TRITON_INTERPRETED):
        return f"its own fused kernel is for CUDA, not for the {device.type.upper()}"
    if dtype not in DTYPES:
        return f"its own fused kernel does not compute in {str(dtype).removeprefix('torch.')}"
    if not TRITON_INSTALLED:
        return "its own fused kernel needs Triton, which is not installed"
    return None


def fused_additive(
    query: Float[Tensor, "*batch q r"],
    key: Float[Tensor, "*kv_batch k r"],
    vector: Float[Tensor, "*head r"],
    value: Float[Tensor, "*kv_batch k dv"],
    *,
    band: tuple[int | None, int | None],
    rest: Bool[Tensor, "... _q _k"] | None,
    bias: Float[Tensor, "... _q k"] | None,
    scale: float,
    dropout: float,
) -> Float[Tensor, "*batch q dv"]:
    """softmax(scale · vᵀ tanh(key + query) + bias) V, over the pairs inside the band that `rest` leaves open.

    `query` and `key` are mapped already. A query that may look at nothing gets zeros.
    """
    batch = query.shape[:-2]
    if 0 in (*batch, query.shape[-2], query.shape[-1], key.shape[-2], value.shape[-1]):
        # 0 whatever the tensors hold, and every one of them has a gradient.
        nothing = sum((part[..., :0].sum() for part in (key, vector, value)), query[..., :0].sum())
        return nothing.to(value.dtype).expand(*batch, query.shape[-2], value.shape[-1])
    queries, keys, values = four_axes(query), four_axes(key), four_axes(value)
    full = (*queries.shape[:3], keys.shape[2])
    rest, bias = (
        None if part is None else part.expand(full) for part in (spread(rest, batch), spread(bias, batch))
    )
    vectors = vector.to(query.dtype).expand(queries.shape[1], -1)
    seed = torch.randint(1 << 62, (1,), device=query.device) if dropout > 0 else None
    mixed, _ = _attend(queries, keys, vectors, values, rest, bias, seed, *band, scale, dropout)
    return mixed.reshape(*batch, *mixed.shape[-2:])


@torch.library.custom_op("regard::additive_attend", mutates_args=())
def _attend(
    query: Tensor,
    key: Tensor,
    vector: Tensor,
    value: Tensor,
    rest: Tensor | None,
    bias: Tensor | None,
    seed: Tensor | None,
    low: int | None,
    high: int | None,
    scale: float,
    dropout: float,
) -> tuple[Tensor, Tensor]:
    from regard.attention.kernels import additive_launch
    from regard.attention.kernels.additive_problem import Problem

    problem = Problem(query, key, vector, rest, bias, seed, low, high, scale, dropout)
    return additive_launch.forward(problem, value)


@torch.library.custom_op("regard::additive_attend_backward", mutates_args=())
def _backward(
    upstream: Tensor,
    out: Tensor,
    lse: Tensor,
    query: Tensor,
    key: Tensor,
    vector: Tensor,
    value: Tensor,
    rest: Tensor | None,
    bias: Tensor | None,
    seed: Tensor | None,
    low: int | None,
    high: int | None,
    scale: float,
    dropout: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    from regard.attention.kernels import additive_launch
    from regard.attention.kernels.additive_problem import BACKWARD, Problem

    problem = Problem(
        query, key, vector, rest, bias, seed, low, high, scale, dropout, backward=True, tiling=BACKWARD
    )
    return additive_launch.backward(problem, value, out, lse, upstream)


@_attend.register_fake
def _(query, key, vector, value, rest, bias, seed, low, high, scale, dropout):  # type: ignore[no-untyped-def]
    out = value.new_empty(*query.shape[:3], value.shape[-1])
    return out, query.new_empty(query.shape[:3], dtype=torch.float32)


@_backward.register_fake
def _(upstream, out, lse, query, key, vector, value, *rest):  # type: ignore[no-untyped-def]
    return tuple(part.new_empty(part.shape) for part in (query, key, vector, value))


def _remember(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    tensors, ctx.numbers = inputs[:7], inputs[7:]
    ctx.save_for_backward(*output, *tensors)
    ctx.mark_non_differentiable(output[1])


def _differentiate(ctx, upstream, _):  # type: ignore[no-untyped-def]
    found = _backward(upstream.contiguous(), *ctx.saved_tensors, *ctx.numbers)
    return *found, *(None for _ in range(7))


_attend.register_autograd(_differentiate, setup_context=_remember)
