import numpy as np
import pytest
import torch

import regard
from regard import RegardError


def test_the_measures_are_those_of_numpy_and_of_a_jacobian_by_autograd():
    numbers = regard.figures.scale(seed=3, widths=3, keys=5, queries=7).numbers
    for place, width in enumerate(numbers["widths"]):
        random = torch.Generator().manual_seed(3 + width)
        query = torch.randn(7, 1, width, generator=random).double().numpy()
        key = torch.randn(7, 5, width, generator=random).double().numpy()
        for name, divisor in (("q·k", 1.0), ("q·k / √d", width**0.5)):
            scores = (query * key).sum(-1) / divisor
            weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
            entropy = -(weights * np.log(weights)).sum(-1).mean()
            slopes = [
                torch.autograd.functional.jacobian(lambda s: s.softmax(-1), row).trace().item()
                for row in torch.from_numpy(scores)
            ]
            found = [numbers[name][what][place] for what in ("variance", "entropy", "gradient")]
            assert found == pytest.approx([scores.var(ddof=1), entropy, np.mean(slopes)], rel=1e-5)


def test_the_variance_is_the_width_and_divided_by_its_root_it_is_1():
    numbers = regard.figures.scale(widths=9, keys=32, queries=300).numbers
    assert numbers["widths"] == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    ratio = np.array(numbers["q·k"]["variance"]) / numbers["widths"]
    np.testing.assert_allclose(ratio, 1, atol=0.15)
    np.testing.assert_allclose(numbers["q·k / √d"]["variance"], ratio, rtol=1e-5)
    assert numbers["q·k"]["gradient"][-1] < 0.3 < 0.9 < numbers["q·k / √d"]["gradient"][-1]
    assert numbers["q·k"]["entropy"][-1] < 0.5 < 2 < numbers["q·k / √d"]["entropy"][-1]


def test_what_does_not_fit_in_memory_at_once_is_drawn_in_parts(monkeypatch):
    from regard.figures import scale_figure

    monkeypatch.setattr(scale_figure, "_TOGETHER", 100)
    numbers = regard.figures.scale(widths=4, keys=5, queries=300).numbers
    np.testing.assert_allclose(np.array(numbers["q·k"]["variance"]) / numbers["widths"], 1, atol=0.2)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"seed": -1}, "--seed -1: give 0 to"),
        ({"widths": 1}, "--widths 1: give 2 to 12"),
        ({"widths": 13}, "--widths 13: give 2 to 12"),
        ({"keys": 1}, "--keys 1: give 2 to"),
        ({"queries": 0}, "--queries 0: give 2 to"),
    ],
)
def test_a_mistake_is_named(settings, named):
    with pytest.raises(RegardError, match=named):
        regard.figures.scale(**settings)
