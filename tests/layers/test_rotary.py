"""Rotary positions."""

import math

import pytest
import torch

from regard import RegardError
from regard.layers.grid_positions import GridRotary
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
    with pytest.raises(RegardError, match="width=6, columns=3"):
        GridRotary(6, columns=3)
    with pytest.raises(RegardError, match="width 4, and got 8"):
        GridRotary(4, columns=3)(torch.zeros(2, 8))


def test_the_table_of_turns_is_that_of_the_angles_however_far() -> None:
    x = torch.randn(2, 3, 8, dtype=torch.float64)
    for offset in (0, 61, 1000):
        angles = torch.arange(offset, offset + 3, dtype=torch.float64)[:, None] * 10000.0 ** (
            -torch.arange(0, 8, 2, dtype=torch.float64) / 8
        )
        turned = torch.view_as_complex(x.reshape(2, 3, 4, 2)) * torch.polar(torch.ones_like(angles), angles)
        torch.testing.assert_close(Rotary(8)(x, offset=offset), torch.view_as_real(turned).flatten(-2))


def test_a_table_made_without_gradients_serves_training() -> None:
    rotary = Rotary(34)  # of a width nobody else uses
    with torch.inference_mode():
        rotary(torch.randn(5, 34))
    x = torch.randn(5, 34, requires_grad=True)
    rotary(x).sum().backward()
    assert x.grad is not None
