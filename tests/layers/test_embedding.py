"""Embeddings."""

import torch

from regard.layers.embedding import Embedding
from regard.layers.positions import Sinusoidal


def test_an_embedding_is_scaled_and_knows_its_place() -> None:
    embedding = Embedding(11, 6, positions=Sinusoidal(6))
    tokens = torch.tensor([[3, 3, 0]])
    expected = embedding.table[tokens] * 6**0.5 + Sinusoidal(6)(torch.arange(4, 7))
    torch.testing.assert_close(embedding(tokens, offset=4), expected)
    assert 0.8 < (Embedding(1000, 64).table * 8).std() < 1.2


def test_rows_of_an_embedding_may_begin_at_places_of_their_own() -> None:
    embedding = Embedding(11, 6, positions=Sinusoidal(6))
    tokens = torch.tensor([[3, 4, 5], [3, 4, 5]])
    both = embedding(tokens, offset=torch.tensor([2, 7]))
    assert torch.equal(both[0], embedding(tokens[0], offset=2))
    assert torch.equal(both[1], embedding(tokens[1], offset=7))
