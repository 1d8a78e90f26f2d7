"""`torch.nn.MultiheadAttention`, over our attention."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.init import constant_, xavier_normal_, xavier_uniform_
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

from regard.interop.torch.heads import multi_head
from regard.interop.torch.nested import to_dense, to_nested
from regard.interop.torch.parameters import Parameters


class MultiheadAttention(nn.Module):
    """Multi-head attention with the constructor, parameters, masks and results of torch's.

    What differs: a query that may look at nothing gets 0 (see `strict_nan`), asking for weights changes no bit of
    the output, the weights are those before dropout, and nested tensors are taken in training too.
    """

    __constants__ = ["batch_first"]  # noqa: RUF012
    in_proj_weight: Tensor | None
    q_proj_weight: Tensor | None
    k_proj_weight: Tensor | None
    v_proj_weight: Tensor | None
    in_proj_bias: Tensor | None
    bias_k: Tensor | None
    bias_v: Tensor | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(f"embed_dim={embed_dim} and num_heads={num_heads}: both must be greater than 0")
        if embed_dim % num_heads:
            raise AssertionError(f"embed_dim={embed_dim} must be divisible by num_heads={num_heads}")
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        self.add_zero_attn = add_zero_attn

        # Which of them exist, and in which order, is what a state_dict and an optimizer's state go by.
        shapes: dict[str, tuple[int, ...] | None] = {
            "q_proj_weight": (embed_dim, embed_dim),
            "k_proj_weight": (embed_dim, self.kdim),
            "v_proj_weight": (embed_dim, self.vdim),
            "in_proj_weight": None,
            "in_proj_bias": (3 * embed_dim,) if bias else None,
        }
        if self._qkv_same_embed_dim:
            shapes |= dict.fromkeys(("q_proj_weight", "k_proj_weight", "v_proj_weight"))
            shapes["in_proj_weight"] = (3 * embed_dim, embed_dim)
        for name, shape in shapes.items():
            self.register_parameter(name, _parameter(shape, device, dtype))
        self.out_proj = NonDynamicallyQuantizableLinear(
            embed_dim, embed_dim, bias=bias, device=device, dtype=dtype
        )
        row = (1, 1, embed_dim) if add_bias_kv else None
        self.bias_k, self.bias_v = _parameter(row, device, dtype), _parameter(row, device, dtype)
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                constant_(bias, 0.0)
        for row in (self.bias_k, self.bias_v):
            if row is not None:
                xavier_normal_(row)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Modules pickled before torch had kdim and vdim do not say that their weights are packed.
        super().__setstate__({"_qkv_same_embed_dim": True} | state)  # type: ignore[no-untyped-call]

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """What each query takes from the keys, and how much it looked at each, or None.

        Inputs are [positions, batch, width], or [batch, positions, width] with `batch_first`, or without a batch.
        In a bool mask True is hidden; a float mask is added to the scores. `attn_mask` is [queries, keys] or
        [batch · heads, queries, keys], `key_padding_mask` [batch, keys]. `is_causal` is a hint that `attn_mask` is
        the causal mask, and is believed.
        """
        asked = query
        query, _ = to_dense(query, batch_first=self.batch_first)
        key, key_padding_mask = to_dense(key, key_padding_mask, batch_first=self.batch_first)
        value, _ = to_dense(value, batch_first=self.batch_first)
        output, weights = multi_head(
            self._parameters_of_call(),
            query,
            key,
            value,
            batch_first=self.batch_first,
            attn_mask=attn_mask,
            key_padding_mask=key_padding_mask,
            is_causal=is_causal,
            dropout=self.dropout if self.training else 0.0,
            need_weights=need_weights,
            average_attn_weights=average_attn_weights,
        )
        return to_nested(output, like=asked), weights

    def _parameters_of_call(self) -> Parameters:
        if self.in_proj_weight is not None:
            query, key, value = self.in_proj_weight.chunk(3)
        elif (
            self.q_proj_weight is not None
            and self.k_proj_weight is not None
            and self.v_proj_weight is not None
        ):
            query, key, value = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
        else:
            raise AssertionError(
                "in_proj_weight is None, and so is one of q_, k_ and v_proj_weight: use one or three"
            )
        return Parameters(
            width=self.embed_dim,
            heads=self.num_heads,
            packed=self._qkv_same_embed_dim,
            query=query,
            key=key,
            value=value,
            bias=self.in_proj_bias,
            key_row=self.bias_k,
            value_row=self.bias_v,
            zero_row=self.add_zero_attn,
            out=self.out_proj.weight,
            out_bias=self.out_proj.bias,
        )


def _parameter(shape: tuple[int, ...] | None, device: Any, dtype: Any) -> nn.Parameter | None:
    return None if shape is None else nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
