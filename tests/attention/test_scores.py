"""Each score against its equation, pair by pair, and against the other ways papers write it."""

import math

import pytest
import torch
from torch import Tensor

from regard import (
    Additive,
    Bilinear,
    Call,
    Cosine,
    Dot,
    LowRank,
    RegardError,
    ScaledDot,
    Score,
    attend,
    weigh,
)


def pair_by_pair(score: Score, q: Tensor, k: Tensor) -> Tensor:
    """The score of one query and one key, in plain numbers."""
    match score:
        case ScaledDot():
            return sum(a * b for a, b in zip(q, k, strict=True)) / math.sqrt(len(q))
        case Dot():
            return sum(a * b for a, b in zip(q, k, strict=True))
        case Cosine():
            return q.dot(k) / q.norm() / k.norm() / score.log_temperature.exp()
        case Bilinear():
            return sum(q[i] * score.weight[i, j] * k[j] for i in range(len(q)) for j in range(len(k)))
        case LowRank():
            return (score.query_weight.mv(q)).dot(score.key_weight.mv(k))
        case Additive():
            return score.vector.dot(torch.tanh(score.key_weight.mv(k) + score.query_weight.mv(q)))
    raise AssertionError(score)


def scores(query_width: int, key_width: int) -> list[Score]:
    learned = [
        Bilinear(query_width, key_width),
        LowRank(query_width, key_width, rank=3),
        Additive(query_width, key_width, hidden=7),
    ]
    alike = [Dot(), ScaledDot(), Cosine(0.2), Cosine(2.0, learned=True)]
    return [score.double() for score in (learned + alike if query_width == key_width else learned)]


@pytest.mark.parametrize("widths", [(5, 5), (5, 2)])
def test_every_score_is_its_equation(widths: tuple[int, int]) -> None:
    query, key = torch.randn(3, widths[0]).double(), torch.randn(4, widths[1]).double()
    for score in scores(*widths):
        expected = torch.stack([torch.stack([pair_by_pair(score, q, k) for k in key]) for q in query])
        torch.testing.assert_close(score(query, key), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("widths", [(5, 5), (5, 2)])
def test_the_maps_lead_to_a_space_where_a_dot_product_gives_the_score(widths: tuple[int, int]) -> None:
    query, key = torch.randn(2, 3, widths[0]).double(), torch.randn(2, 4, widths[1]).double()
    for score in scores(*widths):
        if isinstance(score, Additive):
            continue
        dots = torch.einsum("bqd,bkd->bqk", score.map_query(query), score.map_key(key))
        torch.testing.assert_close(dots * score.factor(widths[0]), score(query, key), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "make",
    [
        lambda heads, kv: Bilinear(5, 3, heads=heads),
        lambda heads, kv: LowRank(5, 3, rank=2, heads=heads, kv_heads=kv),
        lambda heads, kv: Additive(5, 3, hidden=4, heads=heads, kv_heads=kv),
    ],
)
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_a_score_with_heads_is_one_score_a_head(make, kv_heads: int) -> None:  # type: ignore[no-untyped-def]
    many = make(4, kv_heads).double()
    query, key = torch.randn(2, 4, 6, 5).double(), torch.randn(2, kv_heads, 7, 3).double()
    value = torch.randn(2, kv_heads, 7, 9).double()
    mixed = attend(Call(query, key, score=many), value)
    for head in range(4):
        group = head // (4 // kv_heads)
        one = make(None, None).double()
        for name, weight in many.named_parameters():
            row = group if weight.shape[0] == kv_heads and name == "key_weight" else head
            getattr(one, name).data = weight.data[row]
        expected = weigh(query[:, head], key[:, group], score=one) @ value[:, group]
        torch.testing.assert_close(mixed[:, head], expected, rtol=0, atol=1e-12)


def test_a_cosine_score_ignores_length_and_survives_zero() -> None:
    query, key = torch.randn(3, 5).double(), torch.randn(4, 5).double()
    score = Cosine(0.5)
    torch.testing.assert_close(score(query * 1000, key / 7), score(query, key))
    zero = torch.zeros(2, 5).double().requires_grad_()
    mixed = attend(zero, key, key, score=score)
    torch.testing.assert_close(mixed, key.mean(0).expand(2, 5))
    assert torch.autograd.grad(mixed.sum(), zero)[0].isfinite().all()


def test_the_temperature_of_cosine_is_learned_when_asked() -> None:
    query, key = torch.randn(3, 5), torch.randn(4, 5)
    assert Cosine(0.5).log_temperature.requires_grad is False
    score = Cosine(0.5, learned=True)
    attend(query, key, key, score=score).square().sum().backward()
    assert score.log_temperature.grad is not None
    assert score.log_temperature.grad.abs() > 0


def test_a_bilinear_score_is_the_product_of_two_projections() -> None:
    # x W_q (y W_k)ᵀ = x (W_q W_kᵀ) yᵀ: two projections and a dot product are one matrix of at most that rank.
    x, y = torch.randn(4, 6).double(), torch.randn(5, 6).double()
    w_q, w_k = torch.randn(6, 3).double(), torch.randn(6, 3).double()
    score = Bilinear(6, 6).double()
    score.weight.data = w_q @ w_k.T
    torch.testing.assert_close(
        weigh(x, y, score=score, scale=3**-0.5), weigh(x @ w_q, y @ w_k), rtol=0, atol=1e-12
    )
    low = LowRank(6, 6, rank=3).double()
    low.query_weight.data, low.key_weight.data = w_q.T.contiguous(), w_k.T.contiguous()
    torch.testing.assert_close(score(x, y), low(x, y), rtol=0, atol=1e-12)


@pytest.mark.parametrize("heads", [None, 3])
def test_keys_that_are_mapped_once_give_the_same_weights(heads: int | None) -> None:
    query, key, value = torch.randn(2, 3, 4, 6), torch.randn(2, 3, 5, 6), torch.randn(2, 3, 5, 7)
    for score in [
        Dot(),
        ScaledDot(),
        Cosine(0.3),
        Bilinear(6, 6, heads=heads),
        LowRank(6, 6, rank=2, heads=heads),
        Additive(6, 6, hidden=11, heads=heads),
    ]:
        score = score.double()
        whole = attend(query.double(), key.double(), value.double(), score=score)
        mapped, known = score.map_key(key.double()), score.mapped()
        once = attend(query.double(), mapped, value.double(), score=known)
        torch.testing.assert_close(once, whole, rtol=0, atol=1e-12)
        torch.testing.assert_close(
            weigh(query.double(), mapped, score=known),
            weigh(query.double(), key.double(), score=score),
            rtol=0,
            atol=1e-12,
        )


def test_a_score_for_mapped_keys_trains_the_score_it_came_from() -> None:
    score = Additive(6, 6, hidden=11)
    known, key = score.mapped(), torch.randn(5, 6)
    attend(torch.randn(4, 6), score.map_key(key), key, score=known).square().sum().backward()
    for weight in (score.query_weight, score.key_weight, score.vector):
        assert weight.grad is not None
        assert weight.grad.abs().sum() > 0
    with pytest.raises(RegardError, match="keys of width 11, and got 6 and 6"):
        weigh(torch.randn(4, 6), key, score=known)


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("score", "said"),
    [
        (ScaledDot(), "the query has 5 and the key 3.*Bilinear"),
        (Bilinear(5, 4), "queries of width 5 and keys of width 4, and got 5 and 3"),
        (LowRank(4, 3, rank=2), "queries of width 4 and keys of width 3, and got 5 and 3"),
        (Additive(2, 2, hidden=2), "queries of width 2 and keys of width 2, and got 5 and 3"),
    ],
)
def test_widths_that_cannot_meet_are_named(score: Score, said: str) -> None:
    with pytest.raises(RegardError, match=said):
        weigh(torch.randn(2, 5), torch.randn(4, 3), score=score)


def test_a_temperature_is_positive() -> None:
    with pytest.raises(RegardError, match="temperature=0"):
        Cosine(0)
