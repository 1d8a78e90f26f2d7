"""`torch.nn.Transformer`, its encoder, decoder and their layers, over our attention.

They are torch's own modules, made by torch's constructors, with our attention inside, without torch's fast paths, and
for nested tensors everywhere.
"""

from collections.abc import Callable
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.nn import functional as F

from regard.interop.torch.masks import is_causal_mask
from regard.interop.torch.multihead import MultiheadAttention
from regard.interop.torch.nested import to_dense, to_nested


class TransformerEncoderLayer(nn.TransformerEncoderLayer):
    """Self-attention and a feed-forward net (Vaswani 2017, 3.1), with the constructor and parameters of torch's."""

    if not TYPE_CHECKING:  # type checkers see the arguments of torch's

        @wraps(nn.TransformerEncoderLayer.__init__)
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.self_attn.__class__ = MultiheadAttention  # the same parameters, drawn in torch's order

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """The next representation of a sequence. Masks are torch's: True is hidden, floats are added."""
        x, padding = to_dense(src, src_key_padding_mask, batch_first=self.self_attn.batch_first)
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), src_mask, padding, is_causal)
            x = x + self._ff_block(self.norm2(x))
        else:
            x = self.norm1(x + self._sa_block(x, src_mask, padding, is_causal))
            x = self.norm2(x + self._ff_block(x))
        return to_nested(x, like=src)


class TransformerDecoderLayer(nn.TransformerDecoderLayer):
    """Self-attention, attention to a memory and a feed-forward net (Vaswani 2017, 3.1), as torch has it."""

    if not TYPE_CHECKING:

        @wraps(nn.TransformerDecoderLayer.__init__)
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.self_attn.__class__ = self.multihead_attn.__class__ = MultiheadAttention

    def __setstate__(self, state: dict[str, Any]) -> None:
        # torch's own replaces an activation that is a module, which is not in `state` but among its modules.
        nn.Module.__setstate__(self, state)  # type: ignore[no-untyped-call]
        if not hasattr(self, "activation"):
            self.activation = F.relu

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The next representation of a sequence that also looks at `memory`. Masks are torch's: True is hidden."""
        first = self.self_attn.batch_first
        x, tgt_padding = to_dense(tgt, tgt_key_padding_mask, batch_first=first)
        memory, memory_padding = to_dense(memory, memory_key_padding_mask, batch_first=first)
        masks = (tgt_mask, memory_mask, tgt_padding, memory_padding, tgt_is_causal, memory_is_causal)
        return to_nested(super().forward(x, memory, *masks), like=tgt)


class TransformerEncoder(nn.TransformerEncoder):
    """A stack of encoder layers.

    `enable_nested_tensor` and `mask_check` steer a fast path that torch has and we have not: they are taken, kept
    and change nothing. Padded positions are computed like all others, in training or not.
    """

    def __init__(
        self,
        encoder_layer: nn.Module,
        num_layers: int,
        norm: nn.Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__(encoder_layer, num_layers, norm, False, mask_check)  # type: ignore[arg-type]
        self.enable_nested_tensor = enable_nested_tensor

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """The sequence through all layers. Without a hint `is_causal`, the mask is compared with the causal one."""
        first = _batch_first(self)
        x, padding = to_dense(src, src_key_padding_mask, batch_first=first)
        is_causal = is_causal_mask(mask, is_causal, _positions(x, first))
        for layer in self.layers:
            x = layer(x, src_mask=mask, is_causal=is_causal, src_key_padding_mask=padding)
        return to_nested(x if self.norm is None else self.norm(x), like=src)


class TransformerDecoder(nn.TransformerDecoder):
    """A stack of decoder layers, all looking at one memory."""

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """The sequence through all layers. Without a hint `tgt_is_causal`, `tgt_mask` is compared with the causal one."""
        first = _batch_first(self)
        x, tgt_padding = to_dense(tgt, tgt_key_padding_mask, batch_first=first)
        memory, memory_padding = to_dense(memory, memory_key_padding_mask, batch_first=first)
        tgt_is_causal = is_causal_mask(tgt_mask, tgt_is_causal, _positions(x, first))
        masks = (tgt_mask, memory_mask, tgt_padding, memory_padding, tgt_is_causal, memory_is_causal)
        return to_nested(super().forward(x, memory, *masks), like=tgt)


class Transformer(nn.Transformer):
    """An encoder and a decoder that looks at what it made (Vaswani 2017), as torch has it."""

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        where = {"device": device, "dtype": dtype}
        sizes = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps)
        made = {"batch_first": batch_first, "norm_first": norm_first, "bias": bias, **where}
        norm = partial(nn.LayerNorm, d_model, eps=layer_norm_eps, bias=bias, **where)
        if custom_encoder is None:
            layer = TransformerEncoderLayer(*sizes, **made)
            custom_encoder = TransformerEncoder(layer, num_encoder_layers, norm())
        if custom_decoder is None:
            custom_decoder = TransformerDecoder(
                TransformerDecoderLayer(*sizes, **made), num_decoder_layers, norm()
            )
        parts = {"custom_encoder": custom_encoder, "custom_decoder": custom_decoder}
        super().__init__(d_model, nhead, batch_first=batch_first, **parts)


def _batch_first(stack: Any) -> bool:
    return bool(stack.layers[0].self_attn.batch_first)


def _positions(x: Tensor, batch_first: bool) -> int:
    return x.shape[1 if x.ndim == 3 and batch_first else 0]
