"""The mask of packed sequences, against `documents` and against every sequence by itself, in float64."""

import pytest
import torch
from torch import Tensor

from regard import (
    Additive,
    ALiBi,
    Call,
    Cosine,
    HeadSizes,
    MultiHeadAttention,
    RelativeBuckets,
    TensorBias,
    attend,
    causal,
    documents,
    explain,
    keep,
    packed,
    watch,
    weigh,
    window,
)
from regard.attention.masks import Mask
from regard.attention.packing import Packing

QUERIES, KEYS = (
    torch.tensor([3, 7, 1, 5, 2, 9, 4, 6, 8, 2, 3, 5, 4, 1, 2, 3]),
    torch.tensor([5, 2, 4, 1, 6, 3, 9, 2, 2, 7, 1, 4, 3, 5, 2, 1]),
)


def ids(lengths: Tensor) -> Tensor:
    return torch.repeat_interleave(torch.arange(len(lengths)), lengths)


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def test_it_says_what_documents_says() -> None:
    n, m = int(QUERIES.sum()), int(KEYS.sum())
    assert torch.equal(packed(QUERIES).dense(n, n), documents(ids(QUERIES)).dense(n, n))
    across = packed(KEYS, queries=QUERIES)
    assert torch.equal(across.dense(n, m), documents(ids(KEYS), queries=ids(QUERIES)).dense(n, m))
    back = causal() & packed(QUERIES)
    assert torch.equal(back.dense(n, n), (causal() & documents(ids(QUERIES))).dense(n, n))


def test_filling_sees_nothing_and_is_seen_by_nobody() -> None:
    assert packed(Packing.of(torch.tensor([1, 2]), size=5)).picture(5, 5) == "\n".join(
        ["■ · · · ·", "· ■ ■ · ·", "· ■ ■ · ·", "· · · · ·", "· · · · ·"]
    )


MASKS = [
    None,
    causal(),
    window(3),
    causal() & window(4),
    causal(offset=-1),
    ~causal(),
    keep(torch.rand(65, 65) > 0.3),
]


@pytest.mark.parametrize("limit", MASKS, ids=repr)
@pytest.mark.parametrize(
    "bias",
    [None, ALiBi(4), RelativeBuckets(4).double(), TensorBias(random(65, 65))],
    ids=["no bias", "alibi", "buckets", "tensor"],
)
def test_attention_is_that_of_documents(limit: Mask | None, bias) -> None:
    results = []
    parts = [random(1, 4, 65, 6), random(1, 2, 65, 6), random(1, 2, 65, 5)]
    for own in (packed(QUERIES), documents(ids(QUERIES))):
        query, key, value = (part.clone().requires_grad_() for part in parts)
        mixed = attend(query, key, value, own if limit is None else own & limit, bias=bias)
        results.append((mixed, *torch.autograd.grad(mixed.square().sum(), (query, key, value))))
    for mine, other in zip(*results, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "score", [None, Cosine(0.3), Additive(6, 6, hidden=5)], ids=["dot", "cosine", "additive"]
)
def test_every_sequence_gets_what_it_gets_alone(score) -> None:
    score = None if score is None else score.double()
    n, m = int(QUERIES.sum()), int(KEYS.sum())
    query, key, value = random(2, n, 6), random(2, m, 6), random(2, m, 4)
    together = attend(query, key, value, packed(KEYS, queries=QUERIES), score=score)
    for own, memory in zip(range(len(QUERIES)), range(len(KEYS)), strict=True):
        i, j = ids(QUERIES) == own, ids(KEYS) == memory
        alone = attend(query[:, i], key[:, j], value[:, j], score=score)
        torch.testing.assert_close(together[:, i], alone)


@pytest.mark.parametrize("mask", [packed(QUERIES), causal() & packed(QUERIES)], ids=["both ways", "back"])
def test_a_module_gives_packed_sequences_what_it_gives_rows(mask: Mask) -> None:
    attention = MultiHeadAttention(12, 4, sizes=HeadSizes(kv_heads=2)).double()
    x = random(int(QUERIES.sum()), 12)
    together = attention(x, mask=mask)
    for own in range(len(QUERIES)):
        i = ids(QUERIES) == own
        alone = attention(x[i], mask=causal() if "causal" in repr(mask) else None)
        torch.testing.assert_close(together[i], alone)


def test_a_query_with_nothing_to_see_gets_zeros_and_what_nobody_sees_cannot_matter() -> None:
    queries, keys = torch.tensor([2, 3, 0, 2]), torch.tensor([4, 0, 3, 1])
    mask = packed(Packing.of(keys, size=10), queries=Packing.of(queries, size=9))
    unseen = [4, 5, 6, 8, 9]  # of a sequence nobody asks for, and filling
    results = []
    for poison in (0.0, torch.nan, torch.inf, 1e30):
        parts = [random(2, 9, 6), random(2, 10, 6), random(2, 10, 6)]
        torch.manual_seed(1)
        parts = [torch.randn_like(part) for part in parts]
        for part in parts[1:]:
            part[:, unseen] = poison
        parts[0][:, 7:] = poison
        query, key, value = (part.requires_grad_() for part in parts)
        mixed = attend(query, key, value, mask)
        assert not mixed[:, 2:5].any()
        assert not mixed[:, 7:].any()
        results.append((mixed, *torch.autograd.grad(mixed.square().sum(), (query, key, value))))
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_looking_changes_nothing_and_sees_the_weights() -> None:
    attention = MultiHeadAttention(12, 4)
    x, mask = torch.randn(int(QUERIES.sum()), 12), causal() & packed(QUERIES)
    plain = attention(x, mask=mask)
    with watch(attention) as seen:
        watched = attention(x, mask=mask)
    assert torch.equal(plain, watched)
    call = attention.call(x[None], mask=mask)
    weights = weigh(call)
    assert torch.equal(weights[0, 0] > 0, mask.dense(65, 65))
    assert len(seen) == 1


def test_16_bits_on_a_cpu_are_as_near_to_float64_as_torch_is() -> None:
    parts = [random(1, 2, 65, 8) for _ in range(3)]
    exact = attend(*parts, packed(QUERIES))
    found = attend(*(part.bfloat16() for part in parts), packed(QUERIES))
    other = attend(*(part.bfloat16() for part in parts), documents(ids(QUERIES)))
    assert (found - exact).norm() <= 2 * (other - exact).norm()


def test_what_is_chosen_is_explained() -> None:
    call = Call(torch.randn(1, 2, 65, 4), torch.randn(1, 2, 65, 4), causal() & packed(QUERIES))
    told = str(explain(call, dropout=0.1))
    assert told.startswith("rows")
    assert "it has no dropout" in told
