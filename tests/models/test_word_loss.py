"""The loss of words, against plain cross-entropy in float64, gradients included."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from regard.models import word_loss as module
from regard.models.objective import cross_entropy
from regard.models.word_loss import word_loss


def parts(count: int = 150, width: int = 6, vocabulary: int = 11, dtype: torch.dtype = torch.float64):
    vectors = torch.randn(count, width, dtype=dtype, requires_grad=True)
    table = torch.randn(vocabulary, width, dtype=dtype, requires_grad=True)
    return vectors, table, torch.randint(vocabulary, (count,))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("each", [64, 100, 1024])
def test_it_is_cross_entropy_of_the_product(
    smoothing: float, each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_WIDE", each)
    vectors, table, targets = parts()
    mine = word_loss(vectors, table, targets, smoothing=smoothing)
    plain = cross_entropy(vectors @ table.mT, targets, smoothing=smoothing)
    torch.testing.assert_close(mine.total, plain.total)
    assert mine.count == plain.count
    assert not any(value.requires_grad for value in mine.metrics.values())
    for name, value in plain.metrics.items():
        torch.testing.assert_close(mine.metrics[name], value)
    slopes = [torch.autograd.grad(3 * loss.total, (vectors, table)) for loss in (mine, plain)]
    for own, other in zip(*slopes, strict=True):
        torch.testing.assert_close(own, other)


def test_large_logits_cost_no_digits() -> None:
    vectors, table = (torch.randint(-2, 3, (size, 6)).float() for size in (30, 11))
    bias, targets = torch.full((11,), 2.0**14), torch.randint(11, (30,))  # logits are whole numbers: exact
    for vector, target in zip(vectors.split(1), targets.split(1), strict=True):
        mine = word_loss(vector, table, target, bias=bias)
        exact = cross_entropy(vector.double() @ table.double().mT, target)
        torch.testing.assert_close(mine.total.double(), exact.total, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("each", [64, 1024])
def test_a_bias_of_the_words_is_learned_too(each: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WIDE", each)
    vectors, table, targets = parts()
    bias = torch.randn(11, dtype=torch.float64, requires_grad=True)
    mine = word_loss(vectors, table, targets, bias=bias, smoothing=0.1)
    plain = cross_entropy(vectors @ table.mT + bias, targets, smoothing=0.1)
    slopes = [torch.autograd.grad(loss.total, (vectors, table, bias)) for loss in (mine, plain)]
    torch.testing.assert_close(mine.total, plain.total)
    for own, other in zip(*slopes, strict=True):
        torch.testing.assert_close(own, other)


def test_a_target_below_zero_counts_as_nothing_whatever_is_there() -> None:
    vectors, table, targets = parts()
    some = torch.arange(150) % 3 != 0
    poisoned = vectors.detach().clone()
    poisoned[~some] = torch.nan
    poisoned.requires_grad_()
    mine = word_loss(poisoned, table, torch.where(some, targets, -1), smoothing=0.1)
    plain = word_loss(vectors[some], table, targets[some], smoothing=0.1)
    torch.testing.assert_close(mine.total, plain.total)
    assert int(mine.count) == int(some.sum())
    to_vectors, _ = torch.autograd.grad(mine.total, (poisoned, table))
    assert not to_vectors[~some].any()


def test_no_token_at_all_is_a_loss_of_nothing() -> None:
    vectors, table, targets = parts(0)
    loss = word_loss(vectors, table, targets)
    loss.total.backward()
    assert (float(loss.total.detach()), int(loss.count)) == (0.0, 0)
    assert vectors.grad is not None
    assert table.grad is not None
    assert not table.grad.any()


def test_what_is_frozen_gets_no_gradient() -> None:
    vectors, table, targets = parts()
    table.requires_grad_(False)
    word_loss(vectors, table, targets).total.backward()
    assert table.grad is None
    assert vectors.grad is not None
    with torch.no_grad():
        assert not word_loss(vectors, table, targets).total.requires_grad


def test_under_autocast_products_are_16_bits_and_sums_are_not() -> None:
    vectors, table, targets = parts(dtype=torch.float32, vocabulary=300)
    exact = cross_entropy(vectors.double() @ table.double().mT, targets)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mine = word_loss(vectors, table, targets)
        plain = cross_entropy(vectors @ table.mT, targets)
    assert mine.total.dtype == torch.float32
    assert abs(mine.total - exact.total) <= 2 * abs(plain.total - exact.total) + 1e-3
    to_vectors, to_table = torch.autograd.grad(mine.total, (vectors, table))
    assert to_vectors.dtype == to_table.dtype == torch.float32
    right = torch.autograd.grad(exact.total, (vectors, table))
    for found, other in zip((to_vectors, to_table), right, strict=True):
        assert (found - other).norm() < 0.01 * other.norm()


def test_the_scores_of_all_tokens_are_never_there_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WIDE", 64)
    sizes = []
    plain = torch.softmax

    def noted(x, *args, **kwargs):
        sizes.append(x.numel())
        return plain(x, *args, **kwargs)

    monkeypatch.setattr(torch, "softmax", noted)
    vectors, table, targets = parts(1000, vocabulary=50)
    word_loss(vectors, table, targets).total.backward()
    assert max(sizes) <= 64 * 50


def test_without_gradients_nothing_but_the_scores_is_multiplied() -> None:
    vectors, table, targets = parts()
    with torch.no_grad(), FlopCounterMode(display=False) as counted:
        mine = word_loss(vectors, table, targets)
    assert counted.get_total_flops() == 2 * vectors.numel() * len(table)
    assert not mine.total.requires_grad
