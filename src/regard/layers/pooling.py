"""Pooling by attention: a few learned queries ask a whole sequence."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.masks import Mask
from regard.attention.multihead import MultiHeadAttention


class AttentionPooling(nn.Module):
    """A sequence of any length becomes `queries` vectors, the answers to as many learned questions (Lee 2019)."""

    def __init__(self, attention: MultiHeadAttention, *, queries: int = 1) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.randn(queries, attention.width) / attention.width**0.5)
        self.attention = attention

    def forward(
        self, x: Float[Tensor, "*b n d"], *, mask: Mask | None = None
    ) -> Float[Tensor, "*b _queries _width"]:
        """The answers. A padded batch says `mask=lengths(keys=n)`."""
        queries = self.queries.to(x.dtype).expand(*x.shape[:-2], -1, -1)
        return self.attention(queries, x, mask=mask)
