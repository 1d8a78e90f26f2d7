"""What may follow."""

import math

import pytest
import torch

from regard.data.batches import PAD, START
from regard.decoding.probabilities import best, fault, leading, normalised, permitted


def test_probabilities_are_those_of_the_whole_vocabulary_without_pad_and_start() -> None:
    logits = torch.tensor([[0.0, math.log(2), math.log(3), math.log(4)]])
    found = permitted(logits)
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
    permitted(logits)
    leading(logits, 2)
    assert torch.equal(logits, before)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("place", [0, 4])
@pytest.mark.parametrize(("value", "told"), [(math.nan, "gave NaN"), (math.inf, "gave inf")])
def test_of_what_is_no_number_the_likeliest_is_not_finite(
    place: int, value: float, told: str, dtype: torch.dtype, count: int
) -> None:
    logits = torch.randn(3, 7, dtype=dtype)
    logits[1, place] = value
    found, tokens = leading(logits, count)
    assert found[:, 0].isfinite().tolist() == [True, False, True]
    assert ((tokens >= 0) & (tokens < 7)).all()
    assert told in fault(logits[1])


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_forbidden_token_may_be_among_others_but_not_all(dtype: torch.dtype, count: int) -> None:
    logits = torch.randn(3, 7, dtype=dtype)
    logits[1, 3:] = -torch.inf
    assert permitted(logits)[1, 3:].tolist() == [-math.inf] * 4
    assert leading(logits, count)[0][:, 0].isfinite().all()
    logits[1, 2] = -torch.inf
    assert leading(logits, count)[0][:, 0].isfinite().tolist() == [True, False, True]
    assert "leaves nothing to choose from" in fault(logits[1])


@pytest.mark.parametrize("count", [1, 2, 5, 13, 17])
@pytest.mark.parametrize("levels", [2, 4, 1000])
def test_the_best_are_those_of_a_stable_sort(count: int, levels: int) -> None:
    values = torch.randint(levels, (11, 13)).float()
    values[3] = -torch.inf
    found, index = best(values, count)
    for row, numbers in enumerate(values.tolist()):
        order = sorted(range(13), key=lambda i: -numbers[i])[:count]
        empty = count - len(order)
        assert index[row].tolist() == order + [0] * empty
        assert found[row].tolist() == [numbers[i] for i in order] + [-torch.inf] * empty


@pytest.mark.parametrize("n", [2048, 2049, 3001])
@pytest.mark.parametrize("levels", [2, 50, 10**6])
def test_the_best_of_very_many_are_those_of_a_stable_sort_too(n: int, levels: int) -> None:
    values = torch.randint(levels, (5, n)).float()
    values[1] = -torch.inf
    values[2, -1] = levels  # behind the last whole block
    for count in (1, 4):
        found, index = best(values, count)
        for row, numbers in enumerate(values.tolist()):
            order = sorted(range(n), key=lambda i: -numbers[i])[:count]
            assert index[row].tolist() == order
            assert found[row].tolist() == [numbers[i] for i in order]
