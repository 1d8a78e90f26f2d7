"""Slopes made by the kernel, against those made step by step."""

import pytest
import torch

from regard.models import word_loss

pytestmark = pytest.mark.triton


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("vocabulary", [5, 64, 300])
def test_the_kernel_does_what_the_steps_do(smoothing: float, vocabulary: int) -> None:
    from regard.models.kernels.word_slopes import turn_into_slopes

    scores = torch.randn(9, vocabulary)
    targets = torch.randint(vocabulary, (9,))
    targets[4] = -1
    mine, other = scores.clone(), scores.cpu()
    sums = turn_into_slopes(mine, targets, smoothing)
    steps = word_loss._turned_into_slopes(other, targets.cpu(), smoothing, torch.float32)
    torch.testing.assert_close(mine.cpu(), other)
    torch.testing.assert_close(sums.cpu(), steps)
