"""Rotary positions."""

import math

import pytest
import torch

from regard import RegardError
from regard.layers.rotary import Rotary


def test_rotary_positions_turn_pairs() -> None:
    x = torch.randn(3, 4, 6).double()
    turned = Rotary(6)(x, offset=2)
    for t in range(4):
        for i in range(3):
            angle = (t + 2) * 10000 ** (-2 * i / 6)
            a, b = x[:, t, 2 * i], x[:, t, 2 * i + 1]
            torch.testing.assert_close(turned[:, t, 2 * i], a * math.cos(angle) - b * math.sin(angle))
            torch.testing.assert_close(turned[:, t, 2 * i + 1], a * math.sin(angle) + b * math.cos(angle))


def test_rotary_scores_depend_on_the_difference_alone_and_lengths_stay() -> None:
    rotary = Rotary(8)
    q, k = torch.randn(1, 8).double(), torch.randn(1, 8).double()
    scores = [rotary(q, offset=n + 3) @ rotary(k, offset=n).T for n in (0, 10, 5000)]
    torch.testing.assert_close(torch.stack(scores), scores[0].expand(3, 1, 1), rtol=0, atol=1e-9)
    torch.testing.assert_close(rotary(q, offset=77).norm(), q.norm())


def test_angles_keep_their_digits_in_a_half_precision_model() -> None:
    x = torch.randn(1, 8).bfloat16()
    far = Rotary(8).bfloat16()(x, offset=4097)
    torch.testing.assert_close(far.double(), Rotary(8)(x.double(), offset=4097), rtol=0, atol=0.03)


@pytest.mark.usefixtures("as_a_user")
def test_mistakes_are_named() -> None:
    with pytest.raises(RegardError, match="width=5"):
        Rotary(5)
    with pytest.raises(RegardError, match="width 4, and got 6"):
        Rotary(4)(torch.zeros(2, 6))
