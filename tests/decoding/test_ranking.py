"""The best of many, against sorting them in Python."""

import pytest
import torch

from regard.decoding.ranking import best


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
