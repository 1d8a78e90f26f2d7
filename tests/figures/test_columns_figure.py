import math

import numpy as np
import pytest

import regard
from regard import RegardError


def test_each_column_is_a_mean_of_the_columns_of_v_x_written_out_word_by_word():
    numbers = regard.figures.columns(seed=6).numbers
    x, w_q, w_k, v = (np.array(numbers[name]) for name in ("X", "W_q", "W_k", "V"))
    assert x.shape == (3, 4)  # features, words
    words = x.T
    for i, word in enumerate(words):
        powers = [math.exp((w_q @ word) @ (w_k @ other) / math.sqrt(2)) for other in words]
        weights = [power / math.fsum(powers) for power in powers]
        np.testing.assert_allclose(np.array(numbers["A"])[:, i], weights, atol=1e-12)
        answer = sum(weight * (v @ other) for weight, other in zip(weights, words, strict=True))
        np.testing.assert_allclose(np.array(numbers["Y"])[:, i], answer, atol=1e-12)


def test_rows_are_the_transpose_and_the_other_axis_is_not():
    numbers = regard.figures.columns().numbers
    np.testing.assert_allclose(np.transpose(numbers["by rows"]["Y"]), numbers["Y"], atol=1e-12)
    np.testing.assert_allclose(np.transpose(numbers["by rows"]["A"]), numbers["A"], atol=1e-12)
    np.testing.assert_allclose(np.sum(numbers["A"], axis=0), 1)
    np.testing.assert_allclose(np.sum(numbers["normalised along rows"], axis=1), 1)
    assert numbers["largest difference of columns and rows transposed"] < 1e-12
    values = np.array(numbers["V"]) @ np.array(numbers["X"])
    off = np.abs(values @ np.array(numbers["normalised along rows"]) - np.array(numbers["Y"])).max()
    assert numbers["largest difference of Y where the wrong axis is normalised"] == pytest.approx(
        off, abs=1e-6
    )
    assert off > 0.1


def test_a_mistake_is_named():
    with pytest.raises(RegardError, match="--seed -1"):
        regard.figures.columns(seed=-1)
