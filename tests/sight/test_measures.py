import pytest
import torch
from sight.exact import CAPACITIES, Largest, cases, close, looking_as, visible, written

from regard import Call, RegardError, TensorBias, causal, documents, lengths
from regard.sight.evidence import ask
from regard.sight.measures import (
    Inducing,
    Reaching,
    Shifting,
    Sinks,
    diagonal,
    distance,
    induction,
    previous_token,
    similarity,
    sinks,
)

capacities = pytest.mark.parametrize("capacity", CAPACITIES)
A, B, C, D = range(4)


def mean_over(each, counted):
    return (each * counted).sum(-1) / counted.sum(-1).clamp_min(1)


def positions(call):
    i = torch.arange(call.extent.keys - call.extent.queries, call.extent.keys)[:, None]
    return i, torch.arange(call.extent.keys)


@capacities
@cases()
def test_distance_is_the_mean_gap_under_the_weights(case, capacity):
    call, _ = case.build()
    i, j = positions(call)
    expected = (written(call) * (i - j).abs()).sum(-1)
    found = distance(call, capacity=capacity)
    close(found.each, expected, atol=2e-5)
    assert torch.equal(found.counted, visible(call).any(-1))
    close(found.mean(), mean_over(expected, visible(call).any(-1)), atol=2e-5)


@capacities
@cases(square=False)
def test_with_fewer_queries_than_keys_the_queries_are_the_last_unless_told(case, capacity):
    call, _ = case.build()
    i, j = positions(call)
    close(distance(call, capacity=capacity).each, (written(call) * (i - j).abs()).sum(-1), atol=2e-5)
    close(
        distance(call, offset=0, capacity=capacity).each,
        (written(call) * (i - 2 - j).abs()).sum(-1),
        atol=2e-5,
    )


@capacities
@pytest.mark.parametrize("ahead", [-1, 2])
@cases(bias="forbidding")
def test_a_diagonal_is_the_weight_there_over_the_queries_that_may_look_there(case, ahead, capacity):
    call, _ = case.build()
    i, j = positions(call)
    there = (j == i + ahead) & visible(call)
    found = diagonal(call, ahead, capacity=capacity)
    close(found.each, (written(call) * there).sum(-1))
    assert torch.equal(found.counted, there.any(-1))
    close(found.mean(), mean_over(found.each.double(), there.any(-1)))


@capacities
@pytest.mark.parametrize("square", [True, False])
@pytest.mark.parametrize("axes", [(), (3,), (3, 4)])
def test_induction_is_the_mass_after_earlier_occurrences_under_every_mask(square, axes, capacity):
    for parameters in cases(square=square).args[1]:
        call, _ = parameters.build()
        tokens = torch.randint(4, (*axes, call.extent.keys))
        i, j = positions(call)
        everywhere = tokens.reshape(*axes, *([1] * (2 - len(axes))), -1).expand(3, 4, -1)
        own, before = everywhere[..., i], everywhere[..., None, j - 1]
        there = (own == before) & (j >= 1) & (j <= i) & visible(call)
        found = induction(call, tokens, capacity=capacity)
        close(found.each, (written(call) * there).sum(-1))
        assert torch.equal(found.counted, there.any(-1))


@capacities
@cases()
def test_sinks_are_shares_of_all_received_mass(case, capacity):
    call, _ = case.build()
    received = written(call).sum(-2)
    shares = received / received.sum(-1, keepdim=True).clamp_min(1)
    found = sinks(call, count=2, above=0.12, capacity=capacity)
    close(found.shares, shares)
    close(found.first, shares[..., :2].sum(-1))
    assert torch.equal(found.keys, shares > 0.12)
    close(found.mass(), (shares * (shares > 0.12)).sum(-1))


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_half_precision_is_summed_in_float32(dtype):
    for parameters in cases(dtype=dtype, bias="alibi").args[1]:
        call, _ = parameters.build()
        i, j = positions(call)
        close(distance(call).each, (written(call) * (i - j).abs()).sum(-1), atol=5e-5)
    assert distance(call).each.dtype == sinks(call).first.dtype == torch.float32


@pytest.mark.parametrize("score", ["dot", "cosine", "bilinear", "low-rank", "additive"])
@pytest.mark.parametrize("bias", ["alibi", "tensor", "forbidding", "buckets"])
def test_every_score_and_bias_is_measured(score, bias):
    for parameters in cases(score=score, bias=bias).args[1][::3]:
        call, _ = parameters.build()
        i, j = positions(call)
        close(distance(call).each, (written(call) * (i - j).abs()).sum(-1).detach(), atol=5e-5)


def test_float64_stays_float64():
    call = Call(torch.randn(5, 3).double(), torch.randn(5, 3).double(), causal())
    i, j = positions(call)
    torch.testing.assert_close(
        distance(call).each, (written(call) * (i - j).abs()).sum(-1), rtol=0, atol=1e-13
    )


def test_a_perfect_previous_token_head_scores_one():
    weights = torch.eye(6).roll(-1, -1)  # query i looks at key i − 1, and the first at the last
    found = previous_token(looking_as(weights))
    assert found.mean() == 1
    assert found.counted.tolist() == [False] + [True] * 5
    assert diagonal(looking_as(weights)).mean() == 0
    assert distance(looking_as(weights)).each.tolist() == [5, 1, 1, 1, 1, 1]


def test_the_first_word_of_a_document_cannot_spoil_a_previous_token_head():
    call = Call(
        torch.zeros(4, 1), torch.zeros(4, 1), causal(offset=-1) & documents(torch.tensor([0, 0, 1, 1]))
    )
    assert previous_token(call).counted.tolist() == [False, True, False, True]
    assert previous_token(call).mean() == 1


def test_a_perfect_induction_head_scores_one():
    tokens = torch.tensor([A, B, C, A, B, D, A, A])
    weights = torch.zeros(8, 8)
    for query, keys in {0: [0], 1: [0], 2: [0], 3: [1], 4: [2], 5: [0], 6: [1, 4], 7: [1, 4, 7]}.items():
        weights[query, keys] = 1 / len(keys)
    found = induction(looking_as(weights), tokens)
    assert found.counted.tolist() == [False, False, False, True, True, False, True, True]
    assert found.mean() == 1


def test_a_weight_too_small_for_a_float_still_counts_and_a_hidden_one_never():
    bias = torch.zeros(4, 4)
    bias[1, 0] = -500.0  # may look, and does not
    assert (
        previous_token(Call(torch.zeros(4, 1), torch.zeros(4, 1), bias=TensorBias(bias))).counted.sum() == 3
    )
    lowest = torch.full((4, 4), torch.finfo(torch.float32).min)
    call = Call(torch.zeros(4, 1), torch.zeros(4, 1), causal(), TensorBias(lowest))
    assert previous_token(call).each.tolist() == pytest.approx([0, 1 / 2, 1 / 3, 1 / 4])
    assert not diagonal(call, 1).counted.any()
    blind = Call(torch.zeros(4, 1), torch.zeros(4, 1), causal(offset=-9))
    assert not diagonal(blind, -1).counted.any()


def test_several_measures_are_taken_in_one_pass():
    call, tokens = Call(torch.randn(2, 7, 4), torch.randn(2, 7, 4), causal()), torch.randint(3, (7,))
    questions = [Reaching(call), Shifting(call, -1), Inducing(call, tokens)]
    ask(call, *questions)
    alone = [distance(call), previous_token(call), induction(call, tokens)]
    for question, expected in zip(questions, alone, strict=True):
        assert torch.equal(question.answer().each, expected.each)


def test_a_head_that_looks_elsewhere_has_no_induction():
    tokens = torch.tensor([A, B, C, A, B, C])
    call = looking_as(torch.tensor([[0.5, 0.25, 0.25, 0, 0, 0]] * 6))
    found = induction(call, tokens)
    assert found.each.tolist() == [0, 0, 0, 0.25, 0.25, 0]
    assert found.counted.tolist() == [False, False, False, True, True, False]  # C may not look at key 3


def test_a_cached_step_reads_as_the_last_row_of_the_whole():
    query, key, tokens = torch.randn(2, 7, 5), torch.randn(2, 7, 5), torch.tensor([A, B, A, C, A, B, A])
    whole = Call(query, key, causal())
    step = Call(query[:, -2:], key, causal(offset=5))
    for measure in (distance, previous_token, lambda call: induction(call, tokens)):
        close(measure(step).each, measure(whole).each[:, -2:])
        assert torch.equal(measure(step).counted, measure(whole).counted[:, -2:])


def test_a_sink_is_found_where_it_is():
    weights = torch.full((5, 5), 0.05)
    weights[:, 2] = 0.8
    found = sinks(looking_as(weights))
    assert found.keys.tolist() == [False, False, True, False, False]
    close(found.first, torch.tensor(0.05))
    close(found.mass(), torch.tensor(0.8))
    assert torch.equal(Sinks.of(torch.zeros(3)).shares, torch.zeros(3))


def test_garbage_in_padding_does_not_reach_a_measure():
    query, key = torch.randn(2, 2, 6, 4), torch.randn(2, 2, 6, 4)
    mask = causal() & lengths(torch.tensor([6, 3]))
    clean = Call(query, key, mask)
    query, key = query.clone(), key.clone()
    query[1, :, 3:], key[1, :, 3:] = float("nan"), float("inf")
    dirty = Call(query, key, mask)
    tokens = torch.tensor([A, B, A, B, A, B])
    for measure in (distance, previous_token, lambda call: induction(call, tokens)):
        assert torch.equal(measure(clean).each, measure(dirty).each)
    assert torch.equal(sinks(clean).shares, sinks(dirty).shares)


def test_no_measure_holds_the_matrix():
    length = 1024
    call = Call(torch.randn(2, length, 4), torch.randn(2, length, 4), causal())
    tokens = torch.randint(9, (length,))
    for measure in (
        distance,
        previous_token,
        sinks,
        lambda call, capacity: induction(call, tokens, capacity=capacity),
    ):
        with Largest() as largest:
            measure(call, capacity=8 * length)
        assert largest.size <= 64 * length  # bytes; the matrix of one head has 4 · 1024 · length


@pytest.mark.parametrize(
    ("ask", "named"),
    [
        (lambda call: distance(call), ["7 queries", "5 keys", "offset"]),
        (lambda call: induction(call, torch.zeros(4, dtype=torch.long), offset=0), ["(4,)", "5 keys"]),
        (
            lambda call: induction(call, torch.zeros(5, dtype=torch.long), offset=-1),
            ["position -1", "7 queries"],
        ),
        (lambda call: sinks(call, count=0), ["count=0"]),
        (lambda call: sinks(call, above=1.0), ["above=1.0"]),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(ask, named):
    with pytest.raises(RegardError) as error:
        ask(Call(torch.randn(7, 3), torch.randn(5, 3)))
    assert all(name in str(error.value) for name in named), str(error.value)


@pytest.mark.parametrize("capacity", CAPACITIES)
@pytest.mark.parametrize("square", [True, False])
def test_similarity_is_the_mean_overlap_of_the_roots(square, capacity):
    for parameters in cases(square=square).args[1]:
        call, _ = parameters.build()
        weights, looking = written(call), visible(call).any(-1)
        expected = torch.zeros(3, 4, 4).double()
        for batch in range(3):
            for a in range(4):
                for b in range(4):
                    both = looking[batch, a] & looking[batch, b]
                    overlap = (weights[batch, a] * weights[batch, b]).sqrt().sum(-1)
                    expected[batch, a, b] = overlap[both].sum() / max(int(both.sum()), 1)
        close(similarity(call, capacity=capacity), expected, atol=1e-5)


def test_similarity_is_one_for_the_same_head_zero_for_opposite_ones_and_symmetric():
    one = torch.tensor([[0.5, 0.5, 0, 0], [0.2, 0.8, 0, 0]])
    found = similarity(looking_as(torch.stack([one, one, one.flip(-1)])))
    close(found, torch.tensor([[1.0, 1, 0], [1, 1, 0], [0, 0, 1]]))


def test_similarity_by_hand():
    found = similarity(looking_as(torch.tensor([[[0.36, 0.64]], [[0.64, 0.36]]])))
    close(found, torch.tensor([[1, 0.96], [0.96, 1]]))  # 2 · 0.6 · 0.8


def test_similarity_counts_half_of_a_key_and_the_other_half_count_as_the_key():
    whole = torch.tensor([[[0.36, 0.64]], [[0.64, 0.36]]])
    halves = torch.cat([whole[..., :1] / 2, whole[..., :1] / 2, whole[..., 1:]], -1)
    close(similarity(looking_as(halves)), similarity(looking_as(whole)))


def test_similarity_of_a_single_head_and_none_that_looks():
    assert similarity(Call(torch.randn(3, 2), torch.randn(3, 2))).shape == (1, 1)
    blind = Call(torch.randn(2, 3, 2), torch.randn(2, 3, 2), causal(offset=-9))
    assert torch.equal(similarity(blind), torch.zeros(2, 2))


def test_similarity_holds_no_matrix():
    length = 1024
    call = Call(torch.randn(4, length, 4), torch.randn(4, length, 4), causal())
    with Largest() as largest:
        similarity(call, capacity=8 * length)
    assert largest.size <= 64 * length
