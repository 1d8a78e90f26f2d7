import math

import numpy as np
import pytest
import torch

import regard
from regard import RegardError


def softmax(scores: np.ndarray, axis: int = -1) -> np.ndarray:
    powers = np.exp(scores)
    return powers / powers.sum(axis, keepdims=True)


def test_the_weights_are_those_of_both_forms_written_out():
    numbers = regard.figures.slips(seed=5).numbers
    query, key = torch.randn(
        2, 4, 4, 16, generator=torch.Generator().manual_seed(5), dtype=torch.float64
    ).numpy()
    scores = np.einsum("hqd,hkd->hqk", query, key)
    first, seen = scores[0] / 4, np.tri(4, dtype=bool)
    hidden, distance = np.where(seen, 0.0, -np.inf), np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    random = np.random.default_rng(0)
    dropped = [softmax(first * (random.random(4) < 0.75) / 0.75) for _ in range(20_000)]
    forms = {
        "mask multiplied in": (softmax(first + hidden), softmax(first * seen)),
        "added before ÷√d": (
            softmax(first - 2 * distance + hidden),
            softmax((scores[0] - 2 * distance + hidden) / 4),
        ),
        "indices swapped": (softmax(first), softmax(first.T)),
        "the wrong axis": (softmax(first), softmax(first, 0)),
        "dropout first": (softmax(first), np.mean(dropped, 0)),
        "mean over 4 heads": (softmax(first), softmax(scores / 4).mean(0)),
    }
    for name, (right, wrong) in forms.items():
        np.testing.assert_allclose(numbers[name]["right"], right, atol=1e-5, err_msg=name)
        tolerance = 0.01 if name == "dropout first" else 1e-5  # its mean is drawn here, and exact there
        np.testing.assert_allclose(numbers[name]["wrong"], wrong, atol=tolerance, err_msg=name)
        error = np.linalg.norm(wrong - right) / np.linalg.norm(right)
        assert numbers[name]["relative error"] == pytest.approx(error, abs=2 * tolerance)


def test_positions_meet_alike_everywhere_under_the_right_frequencies_alone():
    along = regard.figures.slips().numbers["p(t)·p(t + 10) over t"]
    assert along["2⌊j/2⌋/d"] == pytest.approx(
        [sum(math.cos(10 * 10000 ** (-k / 32)) for k in range(32))] * 200
    )
    assert along["from k = 1"] == pytest.approx(
        [sum(math.cos(10 * 10000 ** (-k / 32)) for k in range(1, 33))] * 200
    )
    assert max(along["2j/d"]) - min(along["2j/d"]) > 5


def test_only_the_norm_around_the_sum_keeps_the_size_of_features():
    sizes = regard.figures.slips().numbers["size of a feature over depth"]
    assert {len(each) for each in sizes.values()} == {25}
    assert sizes["norm(x + f(x))"][1:] == pytest.approx([1.0] * 24, abs=0.01)
    assert sizes["x + norm(f(x))"][-1] > sizes["x + f(norm(x))"][-1] > 2


def test_a_seed_below_0_is_refused():
    with pytest.raises(RegardError, match="--seed -1"):
        regard.figures.slips(seed=-1)
