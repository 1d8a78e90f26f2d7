"""Measuring: everyone in every round, and the memory that tensors hold."""

import pytest
import torch

from regard.bench.measuring import crowd, machine, measure, once, peak_megabytes, sample, spread


def test_everyone_runs_once_a_round_after_warming_up():
    ran = []
    times = measure({name: lambda name=name: ran.append(name) for name in "abc"}, 5)
    assert ran[:3] == ["a", "b", "c"]
    assert [sorted(ran[at : at + 3]) for at in range(0, 18, 3)] == [["a", "b", "c"]] * 6
    assert {name: len(each) for name, each in times.items()} == {"a": 5, "b": 5, "c": 5}


def test_a_timer_says_its_own_time():
    count = iter(range(100))
    assert sample({"a": lambda: float(next(count))}, 3) == {"a": [1.0, 2.0, 3.0]}
    assert sample({"a": lambda: 7.0}, 1) == {"a": [7.0]}


def test_time_is_read_from_the_clock_that_is_given():
    ticks = iter([1.0, 1.5, 2.0, 2.25])
    assert measure({"a": lambda: None}, 1, clock=lambda: next(ticks)) == {"a": [500.0]}
    assert once(lambda: None, clock=lambda: next(ticks)) == 250.0


def test_the_peak_is_what_is_held_at_once():
    def two_then_one():
        first = torch.ones(1 << 20)  # 4 MB
        second = torch.ones(1 << 20)
        del first, second
        torch.ones(1 << 20)

    assert peak_megabytes(two_then_one) == pytest.approx(8, abs=0.1)


def test_the_spread_is_from_the_tenth_to_the_ninetieth_percentile():
    assert spread([float(n) for n in range(20, 0, -1)]) == (3.0, 18.0)
    assert spread([5.0]) == (5.0, 5.0)


def test_the_machine_is_told():
    assert {"cpu", "threads", "load at start", "torch", "python"} <= machine().keys()


def test_a_crowded_machine_is_told_of(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    for load, threads, told in (
        (0.1, 4, False),
        (1.0, 4, True),
        (1.0, 3, False),
        (2.0, 3, True),
        (9.0, 1, True),
    ):
        monkeypatch.setattr("os.getloadavg", lambda load=load: (load, 0.0, 0.0))
        assert (crowd(threads) is not None) == told, (load, threads)
