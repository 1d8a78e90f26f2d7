"""Models that attend, small enough to explore in a test."""

import torch

from regard.attention.masks import causal
from regard.attention.multihead import MultiHeadAttention
from regard.sight.seen import Seen
from regard.sight.watch import watch


class Reader(torch.nn.Module):
    """Two layers of causal self-attention."""

    def __init__(self, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.first, self.second = (MultiHeadAttention(width, heads) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.first(x, mask=causal())
        return x + self.second(x, mask=causal())


def seen_of(tokens: int, *, batch: int = 1, heads: int = 2) -> Seen:
    """What two layers saw of random vectors."""
    model = Reader(heads=heads)
    with torch.no_grad(), watch(model) as seen:
        model(torch.randn(batch, tokens, 16) * 2)
    return seen


class Attending(torch.nn.Module):
    """Causal attention of torch's, on the queries and keys it is given."""

    def forward(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(query, key, key, is_causal=True)


def broken_seen(tokens: int, *, query: int, head: int = 1, value: float = float("nan")) -> Seen:
    """What two heads saw, where one query of one of them is not made of numbers."""
    model, asked = Attending(), torch.randn(1, 2, tokens, 8)
    asked[0, head, query, 3] = value
    with torch.no_grad(), watch(model) as seen:
        model(asked, torch.randn(1, 2, tokens, 8))
    return seen
