"""Pooling: a whole sequence becomes one vector, or a few."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.masks import Mask
from regard.attention.multihead import MultiHeadAttention
from regard.data.given import instance, integers, vectors, whole
from regard.errors import RegardError


class AttentionPooling(nn.Module):
    """A sequence of any length becomes `queries` vectors, the answers to as many learned questions (Lee 2019)."""

    def __init__(self, attention: MultiHeadAttention, *, queries: int = 1) -> None:
        super().__init__()
        instance("attention", attention, MultiHeadAttention, "give a MultiHeadAttention")
        self.queries = nn.Parameter(
            torch.randn(whole("queries", queries, least=1), attention.width) / attention.width**0.5
        )
        self.attention = attention

    def forward(
        self, x: Float[Tensor, "*b n d"], *, mask: Mask | None = None
    ) -> Float[Tensor, "*b _queries _width"]:
        """The answers. A padded batch says `mask=lengths(keys=n)`."""
        x = vectors("x", x, self.attention.key_input, axes=2, of=self)
        queries = self.queries.to(x.dtype).expand(*x.shape[:-2], -1, -1)
        return self.attention(queries, x, mask=mask)


def mean_pooling(x: Float[Tensor, "b n d"], lengths: Int[Tensor, " b"]) -> Float[Tensor, "b d"]:
    """The mean of the real positions; zeros where there is none."""
    x, lengths = vectors("x", x, axes=3), integers("lengths", lengths, 1)
    if len(x) != len(lengths):
        raise RegardError(f"{len(x)} sequences and {len(lengths)} lengths: one length a sequence")
    real = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
    # Chosen, not multiplied by zero: padding may hold anything.
    return torch.where(real[..., None], x, 0.0).sum(1) / lengths[:, None].clamp_min(1)
