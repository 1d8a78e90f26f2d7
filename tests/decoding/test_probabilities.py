"""What may follow."""

import math

import pytest
import torch

from regard import RegardError
from regard.data.batches import PAD, START
from regard.decoding.probabilities import following, normalised

TEXTS = torch.arange(3)


def test_probabilities_are_those_of_the_whole_vocabulary_without_pad_and_start() -> None:
    logits = torch.tensor([[0.0, math.log(2), math.log(3), math.log(4)]])
    found = following(logits, step=0, texts=TEXTS[:1])
    assert found[0, [PAD, START]].tolist() == [-math.inf, -math.inf]
    assert found[0, 2:].exp().tolist() == pytest.approx([0.3, 0.4])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_half_precision_is_widened_before_the_sum(dtype: torch.dtype) -> None:
    logits = torch.randn(4, 3000).to(dtype)
    found = normalised(logits)
    assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    torch.testing.assert_close(found.double(), logits.double().log_softmax(-1), rtol=0, atol=5e-6)


def test_the_logits_are_left_as_they_were() -> None:
    logits = torch.randn(3, 7)
    before = logits.clone()
    following(logits, step=0, texts=TEXTS)
    assert torch.equal(logits, before)


@pytest.mark.parametrize("place", [0, 4])
@pytest.mark.parametrize(("value", "told"), [(math.nan, "NaN"), (math.inf, "gave inf")])
def test_a_number_that_is_none_is_refused_by_step_and_row(place: int, value: float, told: str) -> None:
    logits = torch.randn(3, 7)
    logits[1, place] = value
    with pytest.raises(RegardError, match=rf"step 5, row 8: the model .*{told}"):
        following(logits, step=5, texts=torch.tensor([9, 8, 7]))


def test_a_forbidden_token_is_no_error_but_a_row_of_them_is() -> None:
    logits = torch.randn(3, 7)
    logits[1, 3:] = -torch.inf
    assert following(logits, step=0, texts=TEXTS)[1, 3:].tolist() == [-math.inf] * 4
    logits[1, 2] = -torch.inf
    with pytest.raises(RegardError, match="step 0, row 1: the model leaves nothing to choose from"):
        following(logits, step=0, texts=TEXTS)


def test_a_row_that_nobody_reads_may_hold_anything() -> None:
    logits = torch.randn(3, 7)
    logits[1] = math.nan
    found = following(logits, step=0, texts=torch.tensor([0, -1, 1]))
    assert found[[0, 2], 2:].isfinite().all()
