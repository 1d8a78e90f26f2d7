"""`torch.nn.TransformerDecoderLayer` and `TransformerDecoder`, over our attention."""

from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from regard.interop.torch.layer import Activation, Layer
from regard.interop.torch.multihead import MultiheadAttention
from regard.interop.torch.nested import to_dense, to_nested
from regard.interop.torch.stack import Stack


class TransformerDecoderLayer(Layer):
    """Self-attention, attention to a memory and a feed-forward net (Vaswani 2017, 3.1), as torch has it."""

    multihead_attn: MultiheadAttention
    norm3: nn.LayerNorm
    dropout3: nn.Dropout

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            ("self_attn", "multihead_attn"),
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
            bias,
            device,
            dtype,
        )

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
        batch_first = self.self_attn.batch_first
        x, tgt_padding = to_dense(tgt, tgt_key_padding_mask, batch_first=batch_first)
        memory, memory_padding = to_dense(memory, memory_key_padding_mask, batch_first=batch_first)
        x = self._residual(x, self.norm1, lambda x: self._sa_block(x, tgt_mask, tgt_padding, tgt_is_causal))
        x = self._residual(
            x, self.norm2, lambda x: self._mha_block(x, memory, memory_mask, memory_padding, memory_is_causal)
        )
        x = self._residual(x, self.norm3, self._ff_block)
        return to_nested(x, like=tgt)

    def _mha_block(
        self,
        x: Tensor,
        mem: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        masks: dict[str, Any] = {"attn_mask": attn_mask, "key_padding_mask": key_padding_mask}
        mixed: Tensor = self.multihead_attn(x, mem, mem, **masks, is_causal=is_causal, need_weights=False)[0]
        return self.dropout2(mixed)

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout3(self._feed_forward(x))


class TransformerDecoder(Stack):
    """A stack of decoder layers, all looking at one memory."""

    def __init__(self, decoder_layer: nn.Module, num_layers: int, norm: nn.Module | None = None) -> None:
        super().__init__(decoder_layer, num_layers, norm)

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
        x, tgt_key_padding_mask = to_dense(tgt, tgt_key_padding_mask, batch_first=self._batch_first)
        memory, memory_key_padding_mask = to_dense(
            memory, memory_key_padding_mask, batch_first=self._batch_first
        )
        tgt_is_causal = self._is_causal(tgt_mask, tgt_is_causal, x)
        for layer in self.layers:
            x = layer(
                x,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=tgt_is_causal,
                memory_is_causal=memory_is_causal,
            )
        return to_nested(self._normed(x), like=tgt)
