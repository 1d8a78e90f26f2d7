"""What the kernels answer, against weights written out in float64. Lengths cross several tiles and end inside one."""

import pytest
import torch
from contracts.test_6_evidence import pooled_by_hand
from torch import Tensor

from regard import ALiBi, Call, causal, documents, keep, lengths, weigh, window
from regard.sight import evidence, measures
from regard.sight.kernels.kernel_mask import choose_backend
from regard.sight.selection import select

pytestmark = pytest.mark.triton

BATCH, HEADS, KV_HEADS, LENGTH, MEMORY, WIDTH = 2, 2, 1, 150, 201, 24
N = torch.tensor([LENGTH, 77])
IDS = torch.stack(
    [torch.arange(LENGTH) // 40, (torch.arange(LENGTH) * 7 % 150) // 30]
)  # the second is not sorted
IDS[1, 120:] = -1
MASKS = [
    None,
    causal(),
    causal(offset=-1),
    window(20),
    causal() & window(70),
    lengths(N),
    lengths(torch.tensor([0, 130])),
    causal() & lengths(N, padded="left"),
    lengths(keys=N, queries=torch.tensor([140, 9])),
    documents(IDS),
    causal() & documents(IDS) & lengths(keys=N),
]


def random_call(
    mask=None, dtype=torch.float32, *, keys: int = LENGTH, kv_heads: int = KV_HEADS, **parts
) -> Call:
    query = torch.randn(BATCH, HEADS, LENGTH, WIDTH).to(dtype)
    return Call(query, torch.randn(BATCH, kv_heads, keys, WIDTH).to(dtype), mask, **parts)


def written(call: Call) -> Tensor:
    return weigh(Call(call.query.double(), call.key.double(), call.mask, call.bias, call.score, call.scale))


def close(found: Tensor, expected: Tensor, atol: float = 4e-6) -> None:
    assert found.shape == expected.shape
    torch.testing.assert_close(found.double(), expected.double(), rtol=4e-6, atol=atol)


def check(call: Call, *, size: tuple[int, int] = (7, 5), top: int = 2) -> None:
    """Everything that can be asked."""
    assert choose_backend(call).way == "kernels"
    weights = written(call)
    summing, ranking, pooling = (
        evidence.Summing(call),
        evidence.Ranking(call, top),
        evidence.Pooling(call, *size),
    )
    evidence.ask(call, summing, ranking, pooling)
    summary, (keys, heaviest) = summing.answer(), ranking.answer()
    close(summary.entropy, -torch.special.xlogy(weights, weights).sum(-1))
    close(summary.peak, weights.amax(-1))
    close(summary.received, weights.sum(-2), atol=2e-5)
    close(pooling.answer(), pooled_by_hand(weights, *size))
    close(heaviest, weights.topk(top).values)
    found = keys >= 0
    assert torch.equal(found, heaviest > 0)
    close(weights.gather(-1, keys.clamp_min(0))[found], heaviest[found])
    rows, columns = torch.tensor([5, 0, LENGTH - 1, 17, 70]), torch.tensor([3, call.key.shape[-2] - 1, 3, 64])
    close(evidence.rectangle(call, rows, columns), weights[..., rows[:, None], columns])
    seen = weights.sum(-1) > 0
    assert torch.equal(summary.logsumexp == -torch.inf, ~seen)
    looking = evidence.Looking(call)
    evidence.ask(call, looking, level=summary.logsumexp)
    looks = looking.answer()
    close(looks.entropy, -torch.special.xlogy(weights, weights).sum(-1))
    close(looks.peak, weights.amax(-1))
    assert torch.equal(looks.logsumexp, summary.logsumexp)


@pytest.mark.parametrize("mask", MASKS, ids=repr)
def test_every_mask(mask) -> None:
    check(random_call(mask, torch.bfloat16))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("mask", [None, causal() & documents(IDS) & lengths(keys=N)], ids=repr)
def test_every_dtype(mask, dtype: torch.dtype) -> None:
    check(random_call(mask, dtype))


def test_a_longer_list() -> None:
    check(random_call(causal(), torch.bfloat16), top=12)


def test_a_key_head_for_every_query_head() -> None:
    check(random_call(causal(), torch.bfloat16, kv_heads=HEADS))


@pytest.mark.parametrize("mask", [None, causal(offset=51), lengths(keys=torch.tensor([201, 100]))], ids=repr)
def test_more_keys_than_queries(mask) -> None:
    check(random_call(mask, torch.bfloat16, keys=MEMORY))


@pytest.mark.parametrize("bias", [ALiBi(HEADS), ALiBi(HEADS).shifted(51)], ids=["alibi", "shifted"])
def test_slopes(bias) -> None:
    check(random_call(causal(offset=51), torch.float16, keys=MEMORY, bias=bias))


@pytest.mark.parametrize("heads", [[1, 0], [1]])
def test_chosen_heads_and_entries(heads: list[int]) -> None:
    whole = random_call(causal() & documents(IDS) & lengths(N), torch.bfloat16, bias=ALiBi(HEADS))
    chosen = select(whole, heads=heads, batch=[1])
    looks = evidence.summarise(chosen)
    close(looks.entropy, evidence.summarise(whole).entropy[1:, heads])
    close(looks.received, evidence.summarise(whole).received[1:, heads])


@pytest.mark.parametrize(
    "size",
    [(1, 1), (2, 3), (150, 1), (1000, 140)],
    ids=str,
)
def test_maps_of_any_size(size: tuple[int, int]) -> None:
    call = random_call(causal(), torch.bfloat16)
    within = (min(size[0], LENGTH), min(size[1], LENGTH))
    close(evidence.answer_to(call, evidence.Pooling(call, *size)), pooled_by_hand(written(call), *within))


@pytest.mark.parametrize("size", [(2, 4), (4, 2), (2, 16)], ids=str)
@pytest.mark.parametrize("mask", [None, causal(), lengths(torch.tensor([256, 100]))], ids=repr)
def test_bands_that_end_where_tiles_do(mask, size: tuple[int, int]) -> None:
    query, key = torch.randn(2, 2, 1, 256, 16).bfloat16()
    call = Call(query, key, mask)
    close(evidence.answer_to(call, evidence.Pooling(call, *size)), pooled_by_hand(written(call), *size))


def test_bands_of_several_whole_tiles() -> None:
    query, key = torch.randn(2, 1, 1, 768, 16).half()
    call = Call(query, key)
    close(evidence.answer_to(call, evidence.Pooling(call, 3, 2)), pooled_by_hand(written(call), 3, 2))


@pytest.mark.parametrize("width", [1, 16, 40])
def test_any_width(width: int) -> None:
    query, key = torch.randn(2, 1, 2, 70, width).bfloat16()
    call = Call(query, key, causal())
    close(evidence.summarise(call).received, written(call).sum(-2), atol=2e-5)


def test_tensors_with_gaps_are_read_where_they_are() -> None:
    query = torch.randn(2, 70, 3, 2, 16).bfloat16()[:, :, 1].transpose(1, 2)  # [2, 2, 70, 16] among others
    key = torch.randn(2, 70, 2, 17).bfloat16()[..., 1:].transpose(1, 2)  # begins at an odd address
    call = Call(query, key, causal())
    weights = written(call)
    close(evidence.summarise(call).entropy, -torch.special.xlogy(weights, weights).sum(-1))
    close(evidence.summarise(call).received, weights.sum(-2), atol=2e-5)


def test_a_negative_scale_turns_the_scores_round() -> None:
    check(random_call(causal(), torch.bfloat16, scale=-0.7))


def test_large_scores_neither_overflow_nor_vanish() -> None:
    call = random_call(causal(), scale=300.0)
    weights = written(call)
    close(evidence.summarise(call).peak, weights.amax(-1), atol=2e-4)
    close(evidence.summarise(call).received, weights.sum(-2), atol=2e-3)


def test_keys_of_one_weight_are_all_found() -> None:
    key = torch.randn(1, 1, 1, 16).bfloat16().expand(1, 1, 150, 16)
    call = Call(torch.randn(1, 1, 70, 16).bfloat16(), key)
    keys, weights = evidence.answer_to(call, evidence.Ranking(call, 5))
    assert (keys.sort(-1).values.diff(dim=-1) > 0).all()  # five different ones
    close(weights, torch.full_like(weights, 1 / 150))


def test_more_keys_than_there_are() -> None:
    call = random_call(causal(), torch.bfloat16)
    keys, weights = evidence.answer_to(call, evidence.Ranking(call, 6))
    assert (keys[:, :, 0, 1:] == -1).all()
    assert (weights[:, :, 0, 1:] == 0).all()
    assert (keys[:, :, 2].sort(-1).values == torch.tensor([-1, -1, -1, 0, 1, 2])).all()
    close(
        evidence.answer_to(call, evidence.Ranking(call, 100))[1], written(call).topk(100).values
    )  # too many for the kernel: over strips


@pytest.mark.parametrize("poison", [torch.nan, torch.inf, 1e30])
def test_what_is_masked_cannot_matter(poison: float) -> None:
    mask = causal() & lengths(N, padded="right") & documents(IDS)
    clean = random_call(mask)
    query, key = clean.query.clone(), clean.key.clone()
    query[1, :, 77:], key[1, :, 77:] = poison, poison

    def answers(call: Call) -> list[Tensor]:
        summing, ranking, pooling = (
            evidence.Summing(call),
            evidence.Ranking(call, 2),
            evidence.Pooling(call, 3, 4),
        )
        evidence.ask(call, summing, ranking, pooling)
        looking = evidence.Looking(call)
        evidence.ask(call, looking, level=summing.answer().logsumexp)
        some = torch.tensor([0, 76, 77, 149])
        return [
            *vars(summing.answer()).values(),
            *vars(looking.answer()).values(),
            *ranking.answer(),
            pooling.answer(),
            evidence.rectangle(call, some, some),
        ]

    for found, expected in zip(answers(Call(query, key, mask)), answers(clean), strict=True):
        assert torch.equal(found, expected)


def test_nan_that_is_looked_at_is_told() -> None:
    call = random_call(causal())
    call.key[0, :, 60] = torch.nan
    summary = evidence.summarise(call)
    given = evidence.Looking(call)
    evidence.ask(call, given, level=summary.logsumexp)
    for entropy in (summary.entropy, given.answer().entropy):
        assert entropy[0, :, 60:].isnan().all()
        assert not entropy[0, :, :60].isnan().any()


def test_questions_for_strips_go_along() -> None:
    call = random_call(causal(), torch.bfloat16)
    looking, reaching = evidence.Looking(call), measures.Reaching(call)
    evidence.ask(call, looking, reaching)
    alone = measures.distance(call)
    assert torch.equal(reaching.answer().each, alone.each)
    assert looking.answer().entropy.abs().sum() > 0


def test_a_matrix_goes_over_strips_and_agrees() -> None:
    mask = causal() & window(30)
    told = random_call(mask)
    spelled = Call(told.query, told.key, keep(mask.dense(LENGTH, LENGTH)))
    assert choose_backend(spelled).way == "strips"
    close(evidence.summarise(told).received, evidence.summarise(spelled).received, atol=2e-5)
