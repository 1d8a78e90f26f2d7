import numpy as np
import pytest
import torch

import regard
from regard import RegardError


def by_keras(numbers):
    """The steps of Keras's layer: projections [width, heads, features] by einsum, then one over heads and features."""
    x = torch.tensor(numbers["X"], dtype=torch.float64)
    w_q, w_k, w_v = (
        torch.tensor(numbers[name], dtype=torch.float64).transpose(0, 1) for name in ("W_q", "W_k", "W_v")
    )
    query, key, value = (torch.einsum("nd,dhk->nhk", x, weight) for weight in (w_q, w_k, w_v))
    scores = torch.einsum("shk,thk->hts", key, query / w_q.shape[-1] ** 0.5)
    mixed = torch.einsum("hts,shk->thk", scores.softmax(-1), value)
    return torch.einsum("thk,hkd->td", mixed, torch.tensor(numbers["W_o"], dtype=torch.float64)).numpy()


@pytest.mark.parametrize(("heads", "key_width", "value_width"), [(2, 2, 3), (3, 4, 1), (1, 1, 2)])
def test_the_answer_is_that_of_the_steps_of_keras(heads, key_width, value_width):
    numbers = regard.figures.heads(seed=4, heads=heads, key_width=key_width, value_width=value_width).numbers
    np.testing.assert_allclose(numbers["answer"], by_keras(numbers), atol=1e-12)
    assert np.shape(numbers["W_q"]) == np.shape(numbers["W_k"]) == (heads, 5, key_width)
    assert np.shape(numbers["W_v"]) == (heads, 5, value_width)


def test_concatenated_and_projected_is_the_sum_of_one_term_a_head():
    numbers = regard.figures.heads(heads=3).numbers
    x = np.array(numbers["X"]).T  # a word a column
    v = [(np.array(a) @ np.array(b)).T for a, b in zip(numbers["W_v"], numbers["W_o"], strict=True)]
    total = sum(
        v_h @ x @ np.array(a_h).T for v_h, a_h in zip(v, numbers["weights"], strict=True)
    )  # Σ V_h X A_h
    np.testing.assert_allclose(np.array(numbers["answer"]).T, total, atol=1e-12)
    projected = np.array(numbers["concatenated"]) @ np.concatenate(numbers["W_o"])
    np.testing.assert_allclose(projected, total.T, atol=1e-12)
    np.testing.assert_allclose(np.sum(numbers["terms"], axis=0), total.T, atol=1e-12)
    assert max(numbers["largest difference of the three ways by heads"].values()) < 1e-12


def test_parameters_are_counted_and_follow_the_formula():
    numbers = regard.figures.heads(key_width=2, value_width=3).numbers
    formula = {str(h): h * (2 * 5 * 2 + 5 * 3 + 3 * 5) for h in (1, 2, 3, 4, 8)}
    assert numbers["parameters by heads"] == formula


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"seed": -1}, "--seed -1"),
        ({"heads": 0}, "--heads 0: give 1 to 4"),
        ({"heads": 5}, "--heads 5: give 1 to 4"),
        ({"key_width": 0}, "--key-width 0: give 1 to 8"),
        ({"value_width": 5}, "--value-width 5: give 1 to 4"),
    ],
)
def test_a_mistake_is_named(settings, named):
    with pytest.raises(RegardError, match=named):
        regard.figures.heads(**settings)
