"""Attention with a bias that learns, on torch's memory-efficient kernel for CUDA: the one that gives a bias its gradient."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from regard.attention.scores import share

_ROW = 16  # numbers at whose multiples the rows of a bias must begin


def memory_efficient(
    query: Float[Tensor, "b h q d"],
    key: Float[Tensor, "b g k d"],
    value: Float[Tensor, "b g k d"],
    bias: Float[Tensor, "_b _h _q k"] | None,
    scale: float,
    dropout: float,
) -> Float[Tensor, "b h q d"]:
    """softmax(scale · QKᵀ + bias) V.

    The kernel is asked for by name: `scaled_dot_product_attention` may take cuDNN's, and keeps no log-sum-exp where nothing but
    the bias learns, which the backward pass then reads all the same (pytorch issue 148476).
    """
    if bias is not None:
        keys = bias.shape[-1]
        bias = bias.to(query.dtype)
        bias = F.pad(bias, (0, -keys % _ROW))[..., :keys] if keys % _ROW else bias.contiguous()
        bias = bias.expand(*query.shape[:-1], keys)
    mixed: Tensor = torch.ops.aten._scaled_dot_product_efficient_attention(
        query, share(key, query), share(value, query), bias, True, dropout, False, scale=scale
    )[0]
    return mixed
