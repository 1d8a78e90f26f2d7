"""Cross-entropy against torch's."""

import pytest
import torch
from torch.nn import functional as F

from regard.models.objective import cross_entropy


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
