"""Slips met in well-known texts: the wrong form of each beside the right one, as docs/slips.md tells them."""

import math
import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import regard
from regard import ALiBi, Bilinear, Dot, MultiHeadAttention, RegardError, causal, lengths
from regard.data.digit_counts import FIRST, count_samples
from regard.layers import Sinusoidal, after, before, inside
from regard.models.objective import cross_entropy

PAGE = Path(__file__).parents[1] / "docs" / "slips.md"


def off(wrong: Tensor, right: Tensor) -> float:
    """‖wrong − right‖ / ‖right‖."""
    return ((wrong - right).norm() / right.norm()).item()


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def changed_by(function, x: Tensor, token: int) -> list[int]:
    """The positions whose output changes with one input position."""
    other = x.clone()
    other[token] += 1.0
    return [place for place in range(len(x)) if not torch.equal(function(x)[place], function(other)[place])]


def test_every_slip_of_the_page_is_tested_here():
    named = re.findall(r"`(test_\w+)`", PAGE.read_text())
    here = [name for name in globals() if name.startswith("test_") and "of_the_page" not in name]
    assert named == here


# Data and positions


def test_a_range_that_excludes_its_end_never_draws_the_last_digit():
    digits = np.random.default_rng(0).integers(
        0, 9, (4000, 10)
    )  # wrong: the end is excluded, as of torch.randint
    ours = count_samples(4000, seed=0).inputs.tokens - FIRST
    assert sorted(set(digits.ravel())) == list(range(9))
    assert sorted(set(ours.flatten().tolist())) == list(range(10))
    with_a_nine = (ours == 9).any(1).double().mean().item()
    assert (
        abs(with_a_nine - (1 - 0.9**10)) < 0.03
    )  # 65 % of what it is asked about later holds a digit never seen
    table = nn.Embedding(10, 3)
    table(torch.from_numpy(digits)).square().sum().backward()
    assert table.weight.grad[9].abs().max() == 0  # the vector of the 9 stays as it was drawn
    assert table.weight.grad[:9].abs().min() > 0


def waves(exponent: Tensor, count: int) -> Tensor:
    """sin(t / 10000^e) at even features, cos at odd ones."""
    angle = torch.arange(count)[:, None] / 10000.0 ** exponent.double()
    return torch.where(torch.arange(len(exponent)) % 2 == 0, angle.sin(), angle.cos())


def test_a_sine_and_its_cosine_share_a_frequency():
    j = torch.arange(64)
    right, wrong = waves(2 * (j // 2) / 64, 110), waves(2 * j / 64, 110)
    torch.testing.assert_close(Sinusoidal(64)(torch.arange(110)), right.float(), rtol=0, atol=1e-6)
    far = [(each[:100] * each[10:]).sum(-1) for each in (right, wrong)]  # p(t) · p(t + 10)
    assert far[0].max() - far[0].min() < 1e-9  # depends on the distance alone
    assert far[1].max() - far[1].min() > 5
    # And p(t + 1) is one linear map of p(t) for all t under the right form alone.
    for each, solved in ((right, True), (wrong, False)):
        found = torch.linalg.lstsq(each[:-1], each[1:], driver="gelsd")
        assert ((each[:-1] @ found.solution - each[1:]).abs().max() < 1e-8) == solved


def test_frequencies_begin_at_0():
    j = torch.arange(4)
    right, wrong = waves(2 * (j // 2) / 4, 2), waves(2 * (j // 2 + 1) / 4, 2)  # k = 0, 1 and k = 1, 2
    torch.testing.assert_close(Sinusoidal(4)(torch.arange(2)), right.float())
    assert (right[1] - right[0]).norm() > 50 * (wrong[1] - wrong[0]).norm()  # neighbours look alike
    # A Fourier series of a bell that begins at k = 1 has lost its mean.
    period, decay, distance, k = 160, 0.01, torch.arange(81.0), torch.arange(20.0)
    parts = math.sqrt(math.pi / decay) / period * torch.exp(-((math.pi * k / period) ** 2) / decay)
    parts[1:] *= 2
    terms = parts * torch.cos(2 * math.pi * k * distance[:, None] / period)
    bell = torch.exp(-decay * distance**2)
    assert (terms.sum(1) - bell).abs().max() < 1e-6
    torch.testing.assert_close(bell - terms[:, 1:].sum(1), parts[0].expand(81), rtol=0, atol=1e-6)


# Scores


@pytest.mark.usefixtures("as_a_user")
def test_query_key_and_value_are_handed_over_in_that_order():
    query, key, value = normal(5, 8), normal(5, 8), normal(5, 8)
    right = regard.attend(query, key, value)
    torch.testing.assert_close(right, F.scaled_dot_product_attention(query, key, value))
    for wrong in ((value, query, key), (query, value, key)):
        assert regard.attend(*wrong).shape == right.shape  # nothing complains
        assert off(regard.attend(*wrong), right) > 0.5
    with pytest.raises(RegardError, match="each key has one value"):  # lengths that differ say so
        regard.attend(value, query[:3], key)
    x = normal(5, 8)
    torch.testing.assert_close(regard.attend(x, x, x), F.scaled_dot_product_attention(x, x, x))


@pytest.mark.usefixtures("as_a_user")
def test_the_query_is_the_first_index_of_a_score():
    query, key = normal(5, 8), normal(5, 8)
    right = torch.einsum("id,jd->ij", query, key) / math.sqrt(8)
    wrong = torch.einsum("jd,id->ij", query, key) / math.sqrt(8)
    torch.testing.assert_close(regard.weigh(query, key), right.softmax(-1))
    assert off(wrong.softmax(-1), right.softmax(-1)) > 0.5
    torch.testing.assert_close(regard.weigh(key, query), wrong.softmax(-1))
    score = Bilinear(8, 8).double()
    torch.testing.assert_close(score(query, key), query @ score.weight @ key.mT)  # qᵀWk, not kᵀWq
    assert off(query @ score.weight.mT @ key.mT, score(query, key)) > 0.5
    with pytest.raises(RegardError, match="queries of width 8 and keys of width 5"):  # other widths say so
        regard.weigh(normal(3, 5), normal(3, 8), score=Bilinear(8, 5).double())


def test_the_softmax_is_over_the_keys():
    scores = normal(2, 3, 5)  # batch, queries, keys
    right = regard.weigh(scores, torch.eye(5).double().expand(2, 5, 5), score=Dot())
    torch.testing.assert_close(right, scores.softmax(-1))
    torch.testing.assert_close(right.sum(-1), torch.ones(2, 3).double())
    assert off(scores.softmax(-2).sum(-1), torch.ones(2, 3).double()) > 0.2
    with pytest.warns(UserWarning, match="Implicit dimension choice"):
        torch.testing.assert_close(F.softmax(scores), scores.softmax(0))  # without an axis: over the batch


def test_the_scale_is_that_of_a_head():
    query, key = normal(2, 8, 300, 64)  # 8 heads of 64: a width of 512
    right, wrong = regard.weigh(query, key), regard.weigh(query, key, score=Dot(), scale=512**-0.5)
    torch.testing.assert_close(right @ key, F.scaled_dot_product_attention(query, key, key))
    torch.testing.assert_close(wrong, (query @ key.mT / math.sqrt(512)).softmax(-1))
    spread = [weights.log().var(-1).mean().item() for weights in (right, wrong)]
    assert spread[0] == pytest.approx(1.0, abs=0.05)
    assert spread[1] == pytest.approx(1 / 8, abs=0.01)


# Masks and biases


def test_a_bias_is_added_after_the_division():
    query, key = normal(2, 8, 40, 64)
    bias = ALiBi(8).dense(40, 40).double()
    right, wrong = (query @ key.mT / 8 + bias).softmax(-1), ((query @ key.mT + bias) / 8).softmax(-1)
    torch.testing.assert_close(regard.weigh(query, key, bias=ALiBi(8)), right)
    torch.testing.assert_close(regard.weigh(query, key, bias=bias / 8), wrong)  # a bias 8 times as weak
    assert off(wrong, right) > 0.5
    hidden = torch.zeros(40, 40).double().masked_fill(~causal().dense(40, 40), -math.inf)
    torch.testing.assert_close(
        (query @ key.mT / 8 + hidden).softmax(-1), ((query @ key.mT + hidden) / 8).softmax(-1)
    )


def test_a_mask_is_not_multiplied_in():
    query, key, seen = normal(7, 16), normal(7, 16), causal().dense(7, 7)
    scores = query @ key.mT / 4
    right = regard.weigh(query, key, causal())
    torch.testing.assert_close(right, scores.masked_fill(~seen, -math.inf).softmax(-1))
    first, last = (scores * seen).softmax(-1), scores.softmax(-1) * seen
    assert right[~seen].sum() == 0
    assert first[~seen].sum() > 1  # of the 7 that all rows sum to
    assert last[~seen].sum() == 0
    assert last.sum(-1).min() < 0.5  # rows no longer sum to 1
    x = normal(7, 16)
    forms = {
        "right": lambda x: regard.weigh(x, x, causal()) @ x,
        "before": lambda x: (x @ x.mT / 4 * seen).softmax(-1) @ x,
        "after": lambda x: (x @ x.mT / 4).softmax(-1) * seen @ x,
    }
    found = {name: changed_by(form, x, token=6) for name, form in forms.items()}
    assert found == {"right": [6], "before": [*range(7)], "after": [*range(7)]}  # the last word reaches back


@pytest.mark.usefixtures("as_a_user")
def test_true_in_a_mask_means_opposite_things_in_torch():
    x, hidden = torch.randn(1, 5, 8), torch.ones(5, 5).triu(1).bool()  # True: hidden, as torch.nn takes it
    module = nn.MultiheadAttention(8, 1, batch_first=True)
    torch.testing.assert_close(module(x, x, x, attn_mask=hidden)[1].bool(), ~hidden[None])
    wrong = F.scaled_dot_product_attention(x, x, torch.eye(5)[None], attn_mask=hidden)  # True: seen
    assert wrong[0, :4][~hidden[:4]].abs().max() == 0  # each looks at what comes later, and there alone
    for mask in (causal(), regard.keep(~hidden), ~regard.keep(hidden)):
        assert torch.equal(mask.dense(5, 5), ~hidden)
    with pytest.raises(RegardError, match="does not say whether True is seen or hidden"):
        regard.weigh(x, x, hidden)


def test_a_causal_mask_ends_at_the_query_itself():
    x = normal(6, 8)

    def masked(last: int):
        seen = torch.ones(6, 6).tril(last).bool()
        return lambda x: (x @ x.mT).masked_fill(~seen, -math.inf).softmax(-1) @ x

    torch.testing.assert_close(masked(0)(x), regard.attend(x, x, x, causal(), score=Dot()))
    assert changed_by(masked(0), x, token=4) == [4, 5]
    assert changed_by(masked(1), x, token=4) == [3, 4, 5]  # word 3 sees the word it is to predict
    assert masked(-1)(x)[0].isnan().all()  # and here the first word may look at nothing
    # Random digits cannot be foretold: no model is below log 10. One that sees the next digit is.
    digits = torch.randint(10, (1000,))
    one_hot = F.one_hot(digits, 10).double()
    ahead = torch.zeros(1000, 1000).double().diagonal_scatter(torch.full((999,), 50.0).double(), 1)
    leaking = regard.keep(torch.ones(1000, 1000).tril(1).bool())
    found = regard.attend(torch.zeros_like(one_hot), one_hot, 50 * one_hot, leaking, bias=ahead)
    assert F.cross_entropy(found[:-1], digits[1:]) < 0.01 < math.log(10)


def test_a_large_negative_number_is_not_minus_infinity():
    scores, blind = torch.randn(1, 6), torch.full((1, 6), -1e9)
    assert torch.equal((scores + blind).softmax(-1), torch.full((1, 6), 1 / 6))  # all that is hidden, equally
    nothing = regard.weigh(torch.randn(1, 8), torch.randn(6, 8), lengths(keys=0))
    assert torch.equal(nothing, torch.zeros(1, 6))
    assert torch.tensor(-1e9).half() == -math.inf
    with pytest.raises(RuntimeError, match="overflow"):
        scores.half().masked_fill(torch.ones(1, 6).bool(), -1e9)
    twice = torch.full((1, 6), torch.finfo(torch.float16).min).half()
    assert (twice + twice).softmax(-1).isnan().all()  # two masks that are added
    sharp = torch.tensor([0.0, 11.0, 11.0])  # −10 is too small a number, too
    assert (sharp + torch.tensor([0.0, -10.0, -10.0])).softmax(-1)[0] < 0.2


# Heads and batches


def test_heads_are_split_from_the_features_and_not_from_the_positions():
    module = MultiHeadAttention(12, 4).double()

    def split_by(heads_of, joined):
        def attended(x: Tensor) -> Tensor:
            query, key, value = (heads_of(part) for part in module.input.together(x))
            return module.output(joined(F.scaled_dot_product_attention(query, key, value)))

        return attended

    right = split_by(
        lambda part: part.reshape(8, 4, 3).transpose(0, 1), lambda heads: heads.transpose(0, 1).reshape(8, 12)
    )
    wrong = split_by(lambda part: part.reshape(4, 8, 3), lambda heads: heads.reshape(8, 12))
    x = normal(8, 12)
    torch.testing.assert_close(right(x), module(x))
    assert off(wrong(x), module(x)) > 0.3
    assert changed_by(right, x, token=0) == [*range(8)]
    assert changed_by(wrong, x, token=0) == [0, 1]  # of 8 words in 4 heads, each reaches 8 / 4


def different_heads() -> tuple[nn.MultiheadAttention, Tensor]:
    """Four heads, of which head h looks h words back, around the end; eight words."""
    module, x = nn.MultiheadAttention(32, 4, bias=False, batch_first=True), torch.zeros(1, 8, 32)
    x[0, :, :8] = torch.eye(8)
    with torch.no_grad():
        module.in_proj_weight.zero_()
        for head in range(4):
            rows = slice(8 * head, 8 * head + 8)
            module.in_proj_weight[:32][rows, :8] = 25 * torch.eye(8).roll(head, 1)  # W_q
            module.in_proj_weight[32:64][rows, :8] = torch.eye(8)  # W_k
    return module, x


def test_need_weights_gives_a_mean_over_the_heads():
    module, x = different_heads()
    mean, heads = module(x, x, x)[1], module(x, x, x, average_attn_weights=False)[1]
    assert (mean.shape, heads.shape) == ((1, 8, 8), (1, 4, 8, 8))
    torch.testing.assert_close(mean, heads.mean(1))
    with regard.watch(module) as seen:
        module(x, x, x, need_weights=False)
    torch.testing.assert_close(seen[0].weights(), heads)
    module.dropout = 0.5
    assert module(x, x, x)[1].sum(-1).std() > 0.1  # and in training, after dropout
    entropy = [-(each * each.log()).sum(-1).mean().item() for each in (heads, mean)]
    assert entropy[0] < 0.02  # each head looks at one word
    assert entropy[1] == pytest.approx(math.log(4), abs=0.02)  # and their mean at four


def test_batches_come_second_unless_torch_is_told():
    theirs, told = nn.MultiheadAttention(8, 2), nn.MultiheadAttention(8, 2, batch_first=True)
    told.load_state_dict(theirs.state_dict())
    x = torch.randn(5, 3, 8)  # five sentences of three words
    assert theirs(x, x, x)[1].shape == (3, 5, 5)  # among the sentences
    assert told(x, x, x)[1].shape == (5, 3, 3)  # among the words
    assert changed_by(lambda x: theirs(x, x, x, need_weights=False)[0], x, token=0) == [0, 1, 2, 3, 4]
    assert changed_by(lambda x: told(x, x, x, need_weights=False)[0], x, token=0) == [0]
    assert changed_by(MultiHeadAttention(8, 2), x, token=0) == [0]


# Around attention


def test_the_norm_is_around_the_sum_or_before_the_layer():
    theirs = nn.TransformerEncoderLayer(16, 2, 24, dropout=0.0, batch_first=True)
    attend = lambda x: theirs.self_attn(x, x, x, need_weights=False)[0]  # noqa: E731
    feed = lambda x: theirs.linear2(theirs.linear1(x).relu())  # noqa: E731
    x = torch.randn(2, 5, 16)

    def block(placement) -> Tensor:
        return placement(placement(x, attend, theirs.norm1), feed, theirs.norm2)

    torch.testing.assert_close(block(after), theirs(x))  # norm(x + f(x)), as published
    assert off(block(inside), theirs(x)) > 0.3  # x + norm(f(x))
    # What is added inside has size 1, whatever the layer gives.
    small = lambda x: 0.1 * x  # noqa: E731
    added = [(place(x, small, nn.LayerNorm(16)) - x).std().item() for place in (before, inside)]
    assert [round(size, 1) for size in added] == [0.1, 1.0]


def test_a_norm_divides_by_the_deviation_of_all_features():
    x = normal(3, 4)
    right = F.layer_norm(x, (4,), eps=0.0)
    mean = x.mean(-1, keepdim=True)
    torch.testing.assert_close((x - mean) / x.std(-1, keepdim=True, correction=0), right)
    torch.testing.assert_close((x - mean) / x.std(-1, keepdim=True), math.sqrt(3 / 4) * right)  # correction=1
    still = torch.full((1, 4), 5.0).double()  # ε beside the variance or beside its root
    still[0, 0] += 1e-4
    inside_root = F.layer_norm(still, (4,), eps=1e-6)
    beside = (still - still.mean()) / (still.std(correction=0) + 1e-6)
    assert off(beside, inside_root) > 10


def test_dropout_is_after_the_softmax():
    scores, p = torch.tensor([4.0, 2.0, 1.0, 0.0, -1.0, -3.0]).double(), 0.1
    expected = {"after": torch.zeros_like(scores), "before": torch.zeros_like(scores)}
    for ways in product((0.0, 1.0), repeat=6):  # every way, as often as dropout takes it
        kept = torch.tensor(ways).double()
        share = float((kept * (1 - p) + (1 - kept) * p).prod())
        expected["after"] += share * scores.softmax(-1) * kept / (1 - p)
        expected["before"] += share * (scores * kept / (1 - p)).softmax(-1)
    torch.testing.assert_close(expected["after"], scores.softmax(-1))
    assert off(expected["before"], scores.softmax(-1)) > 0.05
    value, query = torch.eye(6).double(), torch.zeros(4000, 6).double()
    drawn = regard.attend(query, value, value, dropout=p, bias=scores.expand(4000, 6))
    assert (drawn == 0).double().mean().item() == pytest.approx(
        p, abs=0.01
    )  # weights, and not scores, are dropped
    torch.testing.assert_close(drawn.mean(0), scores.softmax(-1), rtol=0, atol=0.02)


# Losses


def test_cross_entropy_takes_scores_and_not_probabilities():
    scores, label = 30.0 * F.one_hot(torch.tensor([3]), 10).double(), torch.tensor([3])  # sure, and right
    right, wrong = F.cross_entropy(scores, label), F.cross_entropy(scores.softmax(-1), label)
    assert right < 1e-6
    assert wrong == pytest.approx(math.log(1 + 9 / math.e))  # 1.46: no model gets below
    torch.testing.assert_close(F.cross_entropy(scores.log_softmax(-1), label), right)  # twice is once
    torch.testing.assert_close(cross_entropy(scores, label).total, right)
    gradients = []
    for form in (lambda scores: scores, lambda scores: scores.softmax(-1)):
        untrained = torch.zeros(1, 10, dtype=torch.float64, requires_grad=True)
        gradients.append(torch.autograd.grad(F.cross_entropy(form(untrained), label), untrained)[0])
    torch.testing.assert_close(gradients[1], gradients[0] / 10)  # as many times smaller as there are classes


def test_a_mean_loss_is_over_the_tokens_that_are_real():
    seen = torch.arange(7) < torch.tensor([7, 2, 1])[:, None]
    scores, targets = normal(3, 7, 9), torch.randint(1, 9, (3, 7)).where(seen, 0)
    scores[~seen] = 20.0 * F.one_hot(torch.tensor(0), 9).double()  # padding is easily foretold
    ours = cross_entropy(scores, targets, seen)
    right = F.cross_entropy(scores.flatten(0, 1), torch.where(seen, targets, -100).flatten())
    torch.testing.assert_close(ours.total / ours.count, right)
    wrong = F.cross_entropy(scores.flatten(0, 1), targets.flatten())
    torch.testing.assert_close(wrong, right * 10 / 21)  # ten tokens of 21 places
    each = [cross_entropy(scores[row], targets[row], seen[row]) for row in range(3)]
    torch.testing.assert_close(sum(part.total for part in each) / sum(part.count for part in each), right)
    assert (
        off(torch.stack([part.total / part.count for part in each]).mean(), right) > 0.01
    )  # a mean of means
