"""The vectors of one token a row in one kernel, against the embedding: on a GPU, or by Triton's interpreter."""

import pytest
import torch

from regard.layers.embedding import Embedding, Sinusoidal

pytestmark = pytest.mark.triton


@pytest.mark.parametrize("width", [24, 64])
@pytest.mark.parametrize("placed", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_vectors_are_those_of_the_embedding(width: int, placed: bool, dtype: torch.dtype) -> None:
    from regard.layers.kernels.embedded import embedded

    made = Embedding(11, width, positions=Sinusoidal(width) if placed else None).to(dtype).eval()
    tokens, at = torch.tensor([3, 0, 10, 3, 7]), torch.tensor([4])
    offset = made.placed(at, count=9)
    with torch.no_grad():
        found = embedded(tokens, made.table, at=at, vectors=offset.vectors)
        wanted = made(tokens[:, None], offset=offset)[:, 0]
    assert torch.equal(found, wanted)
