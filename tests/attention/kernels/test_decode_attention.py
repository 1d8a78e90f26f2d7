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
    from regard.attention.kernels.decode_attention import decode_attention

    sources, heads, kv_heads, queries, keys, width, values, filled = size
    query = torch.randn(sources, heads, queries, width).to(dtype)
    key, value = (torch.randn(sources, kv_heads, keys, each).to(dtype) for each in (width, values))
    key[:, :, filled:], value[:, :, filled:] = torch.nan, torch.nan  # never read
    added = masked(sources, 1 if one else queries, keys).to(dtype)
    found = decode_attention(query, key, value, added=added, filled=torch.tensor([filled]), scale=0.3)
    wanted = expected(query, key, value, added, filled)
    assert (found.double() - wanted).abs().max() < error


@pytest.mark.parametrize("size", [*SIZES, (2, 2, 2, 4, 160, 64, 64, 4)])
def test_the_newest_keys_are_put_into_the_room_and_seen_by_their_own_queries(size: tuple[int, ...]) -> None:
    from regard.attention.kernels.decode_attention import decode_attention

    sources, heads, kv_heads, queries, keys, width, values, filled = size
    query = torch.randn(sources, heads, queries, width)
    key, value = (torch.randn(sources, kv_heads, keys, each) for each in (width, values))
    own = slice(filled - queries, filled)
    newest = [torch.randn(sources, queries, kv_heads, each).transpose(1, 2) for each in (width, values)]
    added = masked(sources, queries, keys)
    added[..., own] = torch.zeros(queries, queries).masked_fill(
        ~torch.eye(queries, dtype=torch.bool), -torch.inf
    )
    cache, mixed = key.clone(), value.clone()
    cache[:, :, own], mixed[:, :, own] = newest
    at = torch.tensor([filled])
    found = decode_attention(
        query, key, value, added=added, filled=at, scale=0.3, newest=(newest[0], newest[1])
    )
    assert torch.equal(key, cache)
    assert torch.equal(value, mixed)
    assert (found.double() - expected(query, cache, mixed, added, filled)).abs().max() < 5e-6


@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 5e-6), (torch.float16, 4e-3)])
def test_each_source_has_its_own_number_of_keys_and_none_gives_zeros(
    queries: int, kv_heads: int, dtype: torch.dtype, error: float
) -> None:
    from regard.attention.kernels.decode_attention import decode_attention

    filled = torch.tensor([150, 1, 64, 0, 17])
    query = torch.randn(5, 4, queries, 24).to(dtype)
    key, value = (torch.randn(5, kv_heads, 160, each).to(dtype) for each in (24, 16))
    for source, count in enumerate(filled):
        key[source, :, count:], value[source, :, count:] = torch.nan, torch.nan  # never read
    found = decode_attention(query, key, value, added=None, filled=filled, scale=0.3)
    for source, count in enumerate(filled.tolist()):
        one = (part[source : source + 1] for part in (query, key, value))
        wanted = expected(*one, torch.zeros(1, 1, 1, 160), count)
        assert (found[source].double() - wanted[0]).abs().max() < error
    assert not found[3].any()


@pytest.mark.parametrize("filled", [1, 20, 64, 65, 130])
@pytest.mark.parametrize("kv_heads", [4, 2])
def test_one_query_puts_its_own_key_into_the_room(filled: int, kv_heads: int) -> None:
    from regard.attention.kernels.decode_attention import decode_attention

    query = torch.randn(3, 4, 1, 24)
    key, value = (torch.randn(3, kv_heads, 160, each) for each in (24, 16))
    newest = [torch.randn(3, 1, kv_heads, each).transpose(1, 2) for each in (24, 16)]
    cache, mixed = key.clone(), value.clone()
    cache[:, :, filled - 1 : filled], mixed[:, :, filled - 1 : filled] = newest
    at = torch.tensor([filled])
    found = decode_attention(
        query, key, value, added=None, filled=at, scale=0.3, newest=(newest[0], newest[1])
    )
    assert torch.equal(key, cache)
    assert torch.equal(value, mixed)
    wanted = expected(query, cache, mixed, torch.zeros(3, 1, 1, 160), filled)
    assert (found.double() - wanted).abs().max() < 5e-6
