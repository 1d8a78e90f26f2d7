"""Slopes made by the kernel, against those made step by step."""

import pytest
import torch

from regard.models import objective

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
    steps = objective._turned_into_slopes(other, targets.cpu(), smoothing, torch.float32)
    torch.testing.assert_close(mine.cpu(), other)
    torch.testing.assert_close(sums.cpu(), steps)


def test_of_equal_scores_the_first_is_the_answer() -> None:
    from regard.models.kernels.word_slopes import turn_into_slopes

    scores = torch.zeros(3, 70)
    scores[:, 40] = scores[:, 50] = 2.0
    targets = torch.tensor([40, 50, 60])
    assert float(turn_into_slopes(scores, targets, 0.0)[2]) == 1.0
