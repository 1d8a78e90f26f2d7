"""Learning rates against the papers' formulas and values worked out by hand."""

import math

import pytest

from regard.runs.settings import Training
from regard.training.schedules import constant, cosine, inverse_square_root, rate_at


def test_the_inverse_square_root_is_the_papers_up_to_its_scale() -> None:
    """lrate = d^-0.5 · min(t^-0.5, t · w^-1.5) (Vaswani 2017, eq. 3)."""
    paper = [min(t**-0.5, t * 400**-1.5) for t in range(1, 5000)]
    ours = [inverse_square_root(t, rate=2e-3, warmup=400) for t in range(1, 5000)]
    assert ours == pytest.approx([each * 2e-3 / paper[399] for each in paper], rel=1e-12)
    assert max(ours) == ours[399] == 2e-3
    assert ours[1599] == pytest.approx(1e-3)


def test_the_cosine_falls_to_almost_nothing_at_the_last_update() -> None:
    rates = [cosine(t, rate=1.0, warmup=10, steps=109) for t in range(1, 110)]
    assert rates[:10] == pytest.approx([t / 10 for t in range(1, 11)])
    assert rates[9] == 1.0
    assert rates[59] == pytest.approx(0.5)  # halfway from 10 to 110
    assert rates[34] == pytest.approx((1 + math.sqrt(0.5)) / 2)
    assert 0 < rates[-1] < 1e-3
    assert rates[9:] == sorted(rates[9:], reverse=True)


def test_constant_is_level_after_warming_up() -> None:
    assert [constant(t, rate=3.0, warmup=3) for t in (1, 2, 3, 4, 900)] == [1.0, 2.0, 3.0, 3.0, 3.0]


@pytest.mark.parametrize("schedule", ["inverse-square-root", "cosine", "constant"])
def test_without_warming_up_the_first_update_has_the_whole_rate(schedule: str) -> None:
    settings = Training(schedule=schedule, warmup=0, learning_rate=0.5, steps=100)  # type: ignore[arg-type]
    assert rate_at(1, settings) == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize("schedule", ["inverse-square-root", "cosine", "constant"])
def test_a_run_shorter_than_its_warming_up_only_rises(schedule: str) -> None:
    settings = Training(schedule=schedule, warmup=50, learning_rate=1.0, steps=10)  # type: ignore[arg-type]
    assert [rate_at(t, settings) for t in range(1, 11)] == pytest.approx([t / 50 for t in range(1, 11)])


def test_a_training_gets_the_schedule_it_names() -> None:
    rates = {
        name: rate_at(400, Training(schedule=name, warmup=100, learning_rate=1.0, steps=999))  # type: ignore[arg-type]
        for name in ("inverse-square-root", "cosine", "constant")
    }
    assert rates["inverse-square-root"] == 0.5
    assert rates["constant"] == 1.0
    assert rates["cosine"] == pytest.approx((1 + math.cos(math.pi * 300 / 900)) / 2)
