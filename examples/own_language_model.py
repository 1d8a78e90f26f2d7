"""A language model of your own: ALiBi positions, one block shared by all layers, decoded through the library's KV cache.

It learns to count on, and then continues numbers that it has not seen together.
"""

from functools import partial

import torch
from torch import Tensor, nn

import regard
from regard import layers, models


class SharedBlock(nn.Module):
    def __init__(self, vocabulary: int, *, width: int = 32, heads: int = 4, depth: int = 3) -> None:
        super().__init__()
        attention = regard.MultiHeadAttention(width, heads, bias=regard.ALiBi(heads))
        self.embedding = layers.Embedding(vocabulary, width)
        feedforward = layers.FeedForward(width, 4 * width)
        self.block = layers.EncoderBlock(attention, feedforward, partial(layers.Residual, width))
        self.depth, self.output = depth, nn.Linear(width, vocabulary)

    def logits(self, batch: regard.Sequences) -> Tensor:
        x, mask = self.embedding(batch.tokens), regard.causal() & regard.lengths(batch.lengths)
        for _ in range(self.depth):
            x = self.block(x, mask=mask)
        return self.output(x)

    def loss(self, batch: regard.Sequences) -> models.Loss:
        before = regard.Sequences(batch.tokens[:, :-1], batch.lengths - 1)
        return models.cross_entropy(self.logits(before), batch.tokens[:, 1:], before.real())

    def start(self, source: regard.Sequences) -> models.KeyValueCache:
        tokens, cache = models.KeyValueCache.of(source, depth=self.depth)
        return self._read(tokens, cache)[1]

    def step(self, tokens: Tensor, cache: models.KeyValueCache) -> tuple[Tensor, models.KeyValueCache]:
        x, cache = self._read(tokens[:, None], cache)
        return self.output(x[:, 0]), cache

    def _read(self, tokens: Tensor, cache: models.KeyValueCache) -> tuple[Tensor, models.KeyValueCache]:
        return cache.through([self.block] * self.depth, self.embedding(tokens))


if __name__ == "__main__":
    torch.manual_seed(0)
    model = SharedBlock(vocabulary=27)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(60):
        pairs = torch.randint(4, 14, (32, 2)).tolist()  # tokens below 4 are special
        loss = model.loss(regard.Sequences.of([[regard.START, *range(n, n + size)] for n, size in pairs]))
        optimiser.zero_grad()
        (loss.total / loss.count).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    prompts = regard.Sequences.of([[regard.START, 5, 6], [regard.START, 11]])
    print("greedy ", [text.tokens for text in regard.greedy(model, prompts, limits=5)])
    print("sampled", [text.tokens for text in regard.sample(model, prompts, limits=5, seed=1)])
    print("beam   ", [best.tokens for [best] in regard.beam(model, prompts, size=3, limits=5)])
