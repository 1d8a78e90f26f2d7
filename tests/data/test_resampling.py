import math

import pytest
import torch

from regard import RegardError
from regard.data.resampling import resample


def sine(frequency: float, rate: int, count: int) -> torch.Tensor:
    return torch.sin(2 * math.pi * frequency * torch.arange(count).double() / rate + 0.3)


@pytest.mark.parametrize("to", [16_000, 11_025, 6_000, 44_100, 8_001, 7_999])
@pytest.mark.parametrize("frequency", [50.0, 997.0, 2_400.0])
def test_a_sine_has_its_exact_values_at_the_new_times(to, frequency):
    ours = resample(sine(frequency, 8_000, 4_000), 8_000, to=to)
    assert len(ours) == math.ceil(4_000 * to / 8_000)
    edge = math.ceil(60 * to / 8_000)  # beyond the ends of a recording nothing is known
    away = (ours - sine(frequency, to, len(ours))).abs()
    assert away[edge:-edge].max() < 2e-6


@pytest.mark.parametrize("to", [4_000, 4_410])
def test_what_the_new_rate_cannot_carry_is_gone(to):
    for frequency in (to * 0.56, to * 0.75, 3_990.0):
        ours = resample(sine(frequency, 8_000, 4_000), 8_000, to=to)
        assert ours[100:-100].abs().max() < 1e-4


def test_a_constant_stays_to_rounding():
    ours = resample(torch.full((500,), 0.25).double(), 44_100, to=16_000)
    assert (ours[40:-40] - 0.25).abs().max() < 1e-14


def test_there_and_back_is_where_it_began():
    sound = sine(300, 8_000, 2_000) + 0.5 * sine(1_700, 8_000, 2_000)
    back = resample(resample(sound, 8_000, to=12_000), 12_000, to=8_000)
    assert (back - sound)[150:-150].abs().max() < 2e-6
    assert resample(sound, 8_000, to=8_000) is sound


def test_a_long_sound_is_that_of_its_parts():
    """Computed in pieces: what lies beside a border between two is as good."""
    ours = resample(sine(440, 8_000, 20_000), 8_000, to=16_000)
    assert (ours - sine(440, 16_000, 40_000))[120:-120].abs().max() < 2e-6


@pytest.mark.parametrize(("rate", "to"), [(0, 8_000), (8_000, -1), (8_000, 10_000_000)])
def test_rates_that_are_none_are_refused(rate, to):
    with pytest.raises(RegardError, match=f"rate={rate}, to={to}"):
        resample(torch.zeros(5), rate, to=to)


def test_a_few_samples_are_enough():
    for count in (1, 2, 5):
        assert len(resample(torch.ones(count), 8_000, to=11_025)) == math.ceil(count * 11_025 / 8_000)
    assert resample(torch.ones(4), 8_000, to=16_000).dtype == torch.float32


def test_kernels_worked_out_on_the_way_give_the_same_bits(monkeypatch) -> None:
    x = torch.rand(3001) * 2 - 1
    before = resample(x, 11025, to=8000)
    monkeypatch.setattr("regard.data.resampling._TABLE", 0)
    monkeypatch.setattr("regard.data.resampling._AT_ONCE", 7001)
    assert torch.equal(resample(x, 11025, to=8000), before)
