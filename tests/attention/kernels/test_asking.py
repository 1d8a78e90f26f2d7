"""The kernel of a step of decoding, against weights written out in float64: on a GPU, or by Triton's interpreter."""

import pytest
import torch
from torch import Tensor

pytestmark = pytest.mark.triton

# sources, heads, heads of keys, queries, keys, width, width of values, filled
SIZES = [(3, 4, 4, 1, 32, 16, 16, 20), (2, 4, 2, 5, 48, 24, 16, 33), (2, 2, 2, 4, 160, 64, 64, 132)]


def masked(sources: int, queries: int, keys: int) -> Tensor:
    added = torch.zeros(sources, 1, queries, keys)
    added = added.masked_fill(torch.rand_like(added) < 0.4, -torch.inf)
    added[..., 0] = 0
    return added


def expected(query: Tensor, key: Tensor, value: Tensor, added: Tensor, filled: int) -> Tensor:
    group = query.shape[1] // key.shape[1]
    key, value = (part[:, :, :filled].double().repeat_interleave(group, 1) for part in (key, value))
    return (query.double() @ key.mT * 0.3 + added[..., :filled].double()).softmax(-1) @ value


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 5e-6), (torch.float16, 4e-3)])
@pytest.mark.parametrize("one", [True, False], ids=["one mask a source", "one a query"])
def test_a_few_queries_over_what_is_filled(
    size: tuple[int, ...], dtype: torch.dtype, error: float, one: bool
) -> None:
    from regard.attention.kernels.asking import ask

    sources, heads, kv_heads, queries, keys, width, values, filled = size
    query = torch.randn(sources, heads, queries, width).to(dtype)
    key, value = (torch.randn(sources, kv_heads, keys, each).to(dtype) for each in (width, values))
    key[:, :, filled:], value[:, :, filled:] = torch.nan, torch.nan  # never read
    added = masked(sources, 1 if one else queries, keys).to(dtype)
    found = ask(query, key, value, added=added, filled=torch.tensor([filled]), scale=0.3)
    wanted = expected(query, key, value, added, filled)
    assert (found.double() - wanted).abs().max() < error


@pytest.mark.parametrize("size", [*SIZES, (2, 2, 2, 4, 160, 64, 64, 4)])
def test_the_newest_keys_are_put_into_the_room_and_seen_by_their_own_queries(size: tuple[int, ...]) -> None:
    from regard.attention.kernels.asking import ask

    sources, heads, kv_heads, queries, keys, width, values, filled = size
    query = torch.randn(sources, heads, queries, width)
    key, value = (torch.randn(sources, kv_heads, keys, each) for each in (width, values))
    own = slice(filled - queries, filled)
    newest = [torch.randn(sources, queries, kv_heads, each).transpose(1, 2) for each in (width, values)]
    added = masked(sources, queries, keys)
    added[..., own] = torch.zeros(queries, queries).masked_fill(
        ~torch.eye(queries, dtype=torch.bool), -torch.inf
    )
    room, mixed = key.clone(), value.clone()
    room[:, :, own], mixed[:, :, own] = newest
    at = torch.tensor([filled])
    found = ask(query, key, value, added=added, filled=at, scale=0.3, newest=(newest[0], newest[1]))
    assert torch.equal(key, room)
    assert torch.equal(value, mixed)
    assert (found.double() - expected(query, room, mixed, added, filled)).abs().max() < 5e-6
