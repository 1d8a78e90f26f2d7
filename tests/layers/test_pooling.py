"""Pooling by attention."""

import torch

from regard import HeadSizes, MultiHeadAttention, lengths
from regard.layers.pooling import AttentionPooling, mean_pooling


def test_pooling_asks_learned_questions_of_what_is_there() -> None:
    pool = AttentionPooling(MultiHeadAttention(6, 2, sizes=HeadSizes(key_input=5, output=3)), queries=4)
    x, n = torch.randn(3, 7, 5), torch.tensor([7, 2, 0])
    pooled = pool(x, mask=lengths(keys=n))
    assert pooled.shape == (3, 4, 3)
    torch.testing.assert_close(pooled[1], pool(x[1, :2]))
    torch.testing.assert_close(pooled[2], pool.attention.output.bias.expand(4, 3))
    shuffled = x[:, torch.randperm(7)]
    torch.testing.assert_close(pool(shuffled), pool(x))


def test_the_mean_is_over_what_is_real() -> None:
    x = torch.randn(3, 5, 2)
    x[0, 3:] = torch.nan
    found = mean_pooling(x, torch.tensor([3, 5, 0]))
    torch.testing.assert_close(found, torch.stack([x[0, :3].mean(0), x[1].mean(0), torch.zeros(2)]))
