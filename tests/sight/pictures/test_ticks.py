import math

import pytest

from regard.sight.pictures.ticks import axis, ticks_over


@pytest.mark.parametrize(
    ("ends", "count", "ticks"),
    [
        ((0, 1), 6, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        ((0, 437), 6, [0, 100, 200, 300, 400]),
        ((1, 19), 6, [5, 10, 15]),
        ((-0.3, 0.3), 7, [-0.3, -0.2, -0.1, 0, 0.1, 0.2, 0.3]),
        ((1e-7, 9e-7), 5, [2e-7, 4e-7, 6e-7, 8e-7]),
    ],
)
def test_ticks_are_round_numbers_between_the_ends(ends, count, ticks):
    assert ticks_over(*ends, count=count) == ticks


def test_an_axis_of_y_ends_at_ticks_around_its_values():
    found = axis([0.13, 0.78])
    assert (found.low, found.high) == (0.0, 0.8)
    assert found.ticks == (0.0, 0.2, 0.4, 0.6, 0.8)
    assert found.names() == ("0", "0.2", "0.4", "0.6", "0.8")


def test_a_tight_axis_ends_at_its_values():
    found = axis([3, 17], count=4, tight=True)
    assert (found.low, found.high, found.ticks) == (3, 17, (5.0, 10.0, 15.0))
    assert [found.at(3), found.at(10), found.at(17)] == [0.0, 0.5, 1.0]


def test_a_logarithmic_axis_has_powers_of_ten_equally_far_apart():
    found = axis([0.0004, 60.0], kind="log")
    assert found.ticks == (1e-4, 1e-2, 1.0, 100.0)
    assert found.names() == ("10⁻⁴", "0.01", "1", "100")
    assert [found.at(tick) for tick in found.ticks] == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert axis([1e-200, 1e200], kind="log").names() == ("10⁻²⁰⁰", "10⁻¹⁰⁰", "1", "10¹⁰⁰", "10²⁰⁰")
    assert axis([3.0, 18.0], kind="log").ticks == (2.0, 5.0, 10.0, 20.0)


def test_a_tight_logarithmic_axis_ends_at_its_values():
    found = axis([128, 8192], kind="log", tight=True)
    assert (found.low, found.high) == (128, 8192)
    assert found.ticks == (200.0, 500.0, 1000.0, 2000.0, 5000.0)
    assert [found.at(n) for n in (128, 1024, 8192)] == pytest.approx([0, 0.5, 1])
    assert axis([300, 400], kind="log", tight=True).ticks == (300, 400)
    assert axis([64, 64], kind="log", tight=True).low < 64


def test_percent_is_a_hundred_times_the_value():
    found = axis([0.0, 0.985], kind="percent", count=3)
    assert found.names() == ("0 %", "50 %", "100 %")


@pytest.mark.parametrize("value", [0.0, 1.0, -2.5, 1e-9, 3e7, 1e300, 5e-324])
@pytest.mark.parametrize("tight", [True, False])
def test_a_constant_lies_inside_its_axis(value, tight):
    found = axis([value, value], tight=tight)
    assert found.low <= value <= found.high
    assert found.low < found.high
    assert 0.2 < found.at(value) < 0.8
    assert len(set(found.names())) == len(found.ticks) >= 1


def test_a_constant_share_stays_below_a_hundred_percent():
    found = axis([1.0], kind="percent")
    assert found.high == 1.0
    assert found.names()[-1].startswith("100")


@pytest.mark.parametrize(
    ("ends", "kind"),
    [
        ((-1e308, 1e308), "plain"),
        ((1e-300, 1e300), "log"),
        ((0.0, 1e-12), "plain"),
        ((5e-324, 1.7e308), "log"),
    ],
)
def test_however_far_apart_the_ends_the_ticks_are_few_and_named_apart(ends, kind):
    found = axis(ends, kind=kind)
    assert 2 <= len(found.ticks) <= 9
    assert all(math.isfinite(tick) and 0 <= found.at(tick) <= 1 for tick in found.ticks)
    assert [0 <= found.at(end) <= 1 for end in ends] == [True, True]
    assert len(set(found.names())) == len(found.ticks)


def test_large_numbers_have_separators_and_huge_ones_a_power():
    assert axis([0, 20_000], count=3).names() == ("0", "10,000", "20,000")
    assert axis([0, 4e6], count=3).names() == ("0", "2×10⁶", "4×10⁶")
    assert axis([-4e-7, 4e-7], count=3).names() == ("−5×10⁻⁷", "0", "5×10⁻⁷")
    assert axis([950_000, 1_050_000], count=3).names() == ("0.95×10⁶", "1.00×10⁶", "1.05×10⁶")
