"""`torch.nn.TransformerEncoderLayer` and `TransformerEncoder`, over our attention."""

from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from regard.interop.torch.layer import Activation, Layer
from regard.interop.torch.nested import to_dense, to_nested
from regard.interop.torch.stack import Stack


class TransformerEncoderLayer(Layer):
    """Self-attention and a feed-forward net (Vaswani 2017, 3.1), with the constructor and parameters of torch's."""

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
            ("self_attn",),
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
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """The next representation of a sequence. Masks are torch's: True is hidden, floats are added."""
        batch_first = self.self_attn.batch_first
        x, src_key_padding_mask = to_dense(src, src_key_padding_mask, batch_first=batch_first)
        x = self._residual(
            x, self.norm1, lambda x: self._sa_block(x, src_mask, src_key_padding_mask, is_causal)
        )
        x = self._residual(x, self.norm2, self._ff_block)
        return to_nested(x, like=src)

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout2(self._feed_forward(x))


class TransformerEncoder(Stack):
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
        super().__init__(encoder_layer, num_layers, norm)
        self.enable_nested_tensor = enable_nested_tensor
        self.use_nested_tensor = False
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """The sequence through all layers. Without a hint `is_causal`, the mask is compared with the causal one."""
        x, src_key_padding_mask = to_dense(src, src_key_padding_mask, batch_first=self._batch_first)
        is_causal = self._is_causal(mask, is_causal, x)
        for layer in self.layers:
            x = layer(x, src_mask=mask, is_causal=is_causal, src_key_padding_mask=src_key_padding_mask)
        return to_nested(self._normed(x), like=src)
