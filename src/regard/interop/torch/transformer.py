"""`torch.nn.Transformer`, over our attention."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.init import xavier_uniform_

from regard.interop.torch.decoder import TransformerDecoder, TransformerDecoderLayer
from regard.interop.torch.encoder import TransformerEncoder, TransformerEncoderLayer
from regard.interop.torch.layer import Activation
from regard.interop.torch.masks import square_subsequent_mask


class Transformer(nn.Module):
    """An encoder and a decoder that looks at what it made (Vaswani 2017), as torch has it."""

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        layer: tuple[Any, ...] = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps)
        layer += (batch_first, norm_first, bias, device, dtype)

        def norm() -> nn.LayerNorm:
            return nn.LayerNorm(d_model, eps=layer_norm_eps, bias=bias, device=device, dtype=dtype)

        self.encoder = custom_encoder
        if custom_encoder is None:
            self.encoder = TransformerEncoder(TransformerEncoderLayer(*layer), num_encoder_layers, norm())
        self.decoder = custom_decoder
        if custom_decoder is None:
            self.decoder = TransformerDecoder(TransformerDecoderLayer(*layer), num_decoder_layers, norm())
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """decode(tgt, encode(src)). Masks are torch's: in a bool mask True is hidden, a float mask is added."""
        batch_axis = 0 if self.batch_first else 1
        if src.ndim == 3 and src.size(batch_axis) != tgt.size(batch_axis):
            raise RuntimeError(
                f"the batch number of src and tgt must be equal, not {src.size(batch_axis)} and {tgt.size(batch_axis)}"
            )
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError(
                f"src and tgt have widths {src.size(-1)} and {tgt.size(-1)}: both must be d_model={self.d_model}"
            )
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        decoded: Tensor = self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )
        return decoded

    @staticmethod
    def generate_square_subsequent_mask(
        sz: int, device: torch.device | None = None, dtype: torch.dtype | None = None
    ) -> Tensor:
        """The causal mask as a float mask: −∞ ahead of the diagonal, 0 elsewhere."""
        return square_subsequent_mask(sz, device, dtype)

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.ndim > 1:
                xavier_uniform_(parameter)
