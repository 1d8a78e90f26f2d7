"""A drop-in for torch.nn's attention: the same constructors, masks, parameters and results, over our attention.

    from regard.interop import torch as nn_like
    attention = nn_like.MultiheadAttention(50, 5)
    attention.load_state_dict(torch.nn.MultiheadAttention(50, 5).state_dict())

Torch's mask polarity (True is hidden) lives here and nowhere else.
"""

from regard.interop.torch.functional import multi_head_attention_forward
from regard.interop.torch.multihead import MultiheadAttention
from regard.interop.torch.nan import strict_nan
from regard.interop.torch.transformer import (
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)

__all__ = [
    "MultiheadAttention",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "multi_head_attention_forward",
    "strict_nan",
]
