"""The written-out equation against NumPy, hand values and its own limits."""

import math

import numpy as np
import pytest
import torch

from regard import Additive, Call, Dot, RegardError, attend, causal, keep, lookup, weigh


def test_four_words_in_numpy() -> None:
    """Four words, softmax of q·k/√d, weighted values: the example every introduction begins with."""
    words = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    random = np.random.default_rng(42)
    w_q, w_k, w_v = (random.integers(3, size=(3, 3)).astype(float) for _ in range(3))
    queries, keys, values = words @ w_q, words @ w_k, words @ w_v
    scores = queries @ keys.T / math.sqrt(keys.shape[1])
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)

    q, k, v = (torch.from_numpy(part) for part in (queries, keys, values))
    np.testing.assert_allclose(weigh(q, k).numpy(), weights, rtol=0, atol=1e-12)
    np.testing.assert_allclose(attend(q, k, v).numpy(), weights @ values, rtol=0, atol=1e-12)


def test_weights_by_hand() -> None:
    # Scores 0 and ln 3: weights 1/4 and 3/4.
    query, key = torch.tensor([[1.0]]), torch.tensor([[0.0], [math.log(3)]])
    torch.testing.assert_close(weigh(query, key, score=Dot()), torch.tensor([[0.25, 0.75]]))
    torch.testing.assert_close(
        attend(query, key, torch.tensor([[4.0], [8.0]]), score=Dot()), torch.tensor([[7.0]])
    )


@pytest.mark.parametrize("additive", [False, True])
def test_hard_lookup_is_the_limit_of_soft_attention(additive: bool) -> None:
    query, key = torch.randn(2, 3, 5, 4).double(), torch.randn(2, 3, 7, 4).double()
    value = torch.randn(2, 3, 7, 6).double()
    score = Additive(4, 4, hidden=5).double() if additive else Dot()
    mask = keep(torch.rand(5, 7) > 0.4) & ~keep(torch.eye(5, 7).bool() & (torch.arange(5)[:, None] == 2))
    hard = lookup(Call(query, key, mask, score=score), value)
    gaps = [
        (attend(Call(query, key, mask, score=score, scale=scale), value) - hard).abs().max().item()
        for scale in (1, 100, 10000, 1e6)
    ]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[0] > 0.1
    assert gaps[-1] < 1e-9


def test_hard_lookup_of_nothing_is_zero() -> None:
    query, value = torch.randn(3, 4), torch.randn(3, 2)
    found = lookup(Call(query, query, causal(offset=-1)), value)
    assert (found[0] == 0).all()
    assert torch.equal(found[1], value[0])


def test_why_the_scale() -> None:
    """The variance of q·k grows with d, that of q·k/√d does not (Vaswani 2017, footnote 4)."""
    for width in (4, 64, 1024):
        query, key = torch.randn(400, width), torch.randn(400, width)
        dot = (query @ key.T).var().item()
        assert 0.9 < dot / width < 1.1
        assert 0.9 < (query @ key.T / math.sqrt(width)).var().item() < 1.1


@pytest.mark.usefixtures("as_a_user")
def test_what_does_not_fit_together_is_named() -> None:
    q = torch.randn(2, 4, 5, 8)
    with pytest.raises(RegardError, match=r"\(2, 4, 5, 8\) and key \(2, 3, 5, 8\)"):
        weigh(q, q[:, :3])
    with pytest.raises(RegardError, match=r"torch\.float32 on .*, key torch\.float64"):
        weigh(q, q.double())
    with pytest.raises(RegardError, match="equally many axes"):
        weigh(q, q[0])
    with pytest.raises(RegardError, match="keep"):
        weigh(q, q, torch.ones(5, 5).bool())  # type: ignore[arg-type]
    with pytest.raises(RegardError, match="needs a key"):
        weigh(q)  # type: ignore[call-overload]
    with pytest.raises(RegardError, match=r"4 batch axes .* with 2"):
        weigh(q, q, keep(torch.ones(1, 1, 1, 1, 5, 5).bool()))
