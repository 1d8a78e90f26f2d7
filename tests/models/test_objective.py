"""Cross-entropy against torch's, and the loss of words against plain cross-entropy in float64, gradients included."""

import pytest
import torch
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from regard.layers.mixed_precision import become
from regard.models import objective
from regard.models.objective import MixedWordLoss, WordLoss, cross_entropy


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
def test_the_loss_is_torchs_summed_over_real_tokens(smoothing: float) -> None:
    logits, targets = torch.randn(3, 5, 7).double(), torch.randint(0, 7, (3, 5))
    real = torch.rand(3, 5) < 0.6
    loss = cross_entropy(logits, targets, real, smoothing=smoothing)
    expected = F.cross_entropy(logits[real], targets[real], label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(loss.total, expected, rtol=0, atol=1e-12)
    assert loss.count.item() == real.sum().item()
    plain = F.cross_entropy(logits[real], targets[real], reduction="sum")
    torch.testing.assert_close(loss.metrics["nll"], plain, rtol=0, atol=1e-12)
    assert loss.metrics["correct"].item() == (logits.argmax(-1) == targets)[real].sum().item()


def test_what_is_not_real_cannot_matter() -> None:
    logits, targets = torch.randn(2, 3, 7), torch.randint(0, 7, (2, 3))
    real = torch.tensor([[True, True, False], [True, False, False]])
    found = []
    for filling in (0.0, float("nan")):
        filled = torch.where(real[..., None], logits, filling).requires_grad_()
        loss = cross_entropy(filled, torch.where(real, targets, 6 if filling else 0), real)
        loss.total.backward()
        assert filled.grad is not None
        found.append((loss.total, filled.grad))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])
    assert (found[0][1][~real] == 0).all()


def test_sums_are_made_in_float32() -> None:
    logits, targets = torch.randn(301, 7).bfloat16(), torch.randint(0, 7, (301,))
    loss = cross_entropy(logits, targets)
    assert loss.total.dtype == loss.metrics["correct"].dtype == torch.float32
    expected = F.cross_entropy(logits.double(), targets, reduction="sum")
    torch.testing.assert_close(loss.total.double(), expected, rtol=1e-6, atol=0)


def test_a_batch_of_nothing_loses_nothing() -> None:
    loss = cross_entropy(torch.randn(3, 7), torch.zeros(3).long(), torch.zeros(3).bool())
    assert (loss.total.item(), loss.count.item()) == (0.0, 0)


def test_shares_weigh_samples_but_are_not_counted() -> None:
    logits, targets = torch.randn(5, 7).double(), torch.tensor([0, 3, 6, 1, 1])
    shares, real = torch.rand(5).double(), torch.tensor([True, True, False, True, True])
    each = torch.nn.functional.cross_entropy(logits, targets, label_smoothing=0.2, reduction="none")
    loss = cross_entropy(logits, targets, real, smoothing=0.2, shares=shares)
    torch.testing.assert_close(loss.total, (each * shares)[real].sum(), rtol=0, atol=1e-12)
    assert loss.count.item() == 4
    assert loss.metrics["correct"] == (logits.argmax(-1) == targets)[real].sum()


def parts(count: int = 150, width: int = 6, vocabulary: int = 11, dtype: torch.dtype = torch.float64):
    vectors = torch.randn(count, width, dtype=dtype, requires_grad=True)
    table = torch.randn(vocabulary, width, dtype=dtype, requires_grad=True)
    return vectors, table, torch.randint(vocabulary, (count,))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("each", [64, 100, 1024])
def test_it_is_cross_entropy_of_the_product(
    smoothing: float, each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objective, "_WIDE", each)
    vectors, table, targets = parts()
    mine = WordLoss()(vectors, table, targets, smoothing=smoothing)
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
        mine = WordLoss()(vector, table, target, bias)
        exact = cross_entropy(vector.double() @ table.double().mT, target)
        torch.testing.assert_close(mine.total.double(), exact.total, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("each", [64, 1024])
def test_a_bias_of_the_words_is_learned_too(each: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objective, "_WIDE", each)
    vectors, table, targets = parts()
    bias = torch.randn(11, dtype=torch.float64, requires_grad=True)
    mine = WordLoss()(vectors, table, targets, bias, smoothing=0.1)
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
    mine = WordLoss()(poisoned, table, torch.where(some, targets, -1), smoothing=0.1)
    plain = WordLoss()(vectors[some], table, targets[some], smoothing=0.1)
    torch.testing.assert_close(mine.total, plain.total)
    assert int(mine.count) == int(some.sum())
    to_vectors, _ = torch.autograd.grad(mine.total, (poisoned, table))
    assert not to_vectors[~some].any()


def test_no_word_at_all_is_a_loss_of_nothing() -> None:
    vectors, table, targets = parts(0)
    loss = WordLoss()(vectors, table, targets)
    loss.total.backward()
    assert (float(loss.total.detach()), int(loss.count)) == (0.0, 0)
    assert vectors.grad is not None
    assert table.grad is not None
    assert not table.grad.any()


def test_what_is_frozen_gets_no_gradient() -> None:
    vectors, table, targets = parts()
    table.requires_grad_(False)
    WordLoss()(vectors, table, targets).total.backward()
    assert table.grad is None
    assert vectors.grad is not None
    with torch.no_grad():
        assert not WordLoss()(vectors, table, targets).total.requires_grad


def test_in_mixed_precision_products_are_16_bits_and_sums_are_not() -> None:
    vectors, table, targets = parts(dtype=torch.float32, vocabulary=300)
    exact = cross_entropy(vectors.double() @ table.double().mT, targets)
    mixed = WordLoss()
    become(mixed, MixedWordLoss, torch.bfloat16)
    mine = mixed(vectors, table, targets)
    plain = cross_entropy(vectors.bfloat16() @ table.bfloat16().mT, targets)
    assert mine.total.dtype == torch.float32
    assert abs(mine.total - exact.total) <= 2 * abs(plain.total - exact.total) + 1e-3
    to_vectors, to_table = torch.autograd.grad(mine.total, (vectors, table))
    assert to_vectors.dtype == to_table.dtype == torch.float32
    right = torch.autograd.grad(exact.total, (vectors, table))
    for found, other in zip((to_vectors, to_table), right, strict=True):
        assert (found - other).norm() < 0.01 * other.norm()


def test_autocast_does_not_decide() -> None:
    vectors, table, targets = parts(dtype=torch.float32)
    plain = WordLoss()(vectors, table, targets).total
    with torch.autocast(vectors.device.type, dtype=torch.bfloat16):
        assert torch.equal(WordLoss()(vectors, table, targets).total, plain)


def test_the_scores_of_all_tokens_are_never_there_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objective, "_WIDE", 64)
    sizes = []
    plain = torch.softmax

    def noted(x, *args, **kwargs):
        sizes.append(x.numel())
        return plain(x, *args, **kwargs)

    monkeypatch.setattr(torch, "softmax", noted)
    vectors, table, targets = parts(1000, vocabulary=50)
    WordLoss()(vectors, table, targets).total.backward()
    assert max(sizes) <= 64 * 50


def test_without_gradients_nothing_but_the_scores_is_multiplied() -> None:
    vectors, table, targets = parts()
    with torch.no_grad(), FlopCounterMode(display=False) as counted:
        mine = WordLoss()(vectors, table, targets)
    assert counted.get_total_flops() == 2 * vectors.numel() * len(table)
    assert not mine.total.requires_grad
