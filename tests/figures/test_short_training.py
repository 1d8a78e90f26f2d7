import signal

import pytest
import torch

from regard import RegardError
from regard.data.digit_counts import CountFeed
from regard.figures.figure_result import silent
from regard.figures.short_training import check_options, learn, seeded
from regard.models.counter import Counter, CounterConfig
from regard.runs.settings import Training

SETTINGS = Training(steps=8, learning_rate=3e-3, warmup=0)


def counter():
    return Counter(CounterConfig())


def test_a_seed_gives_the_same_model_and_losses_whatever_was_drawn_before():
    lines = []
    first = learn(counter, CountFeed(seed=1, rows=7), SETTINGS, seed=1, name="it", progress=lines.append)
    torch.rand(3)
    second = learn(counter, CountFeed(seed=1, rows=7), SETTINGS, seed=1, name="it", progress=silent)
    assert [step for step, _ in first[1]] == [*range(1, 9)]
    assert first[1] == second[1]
    assert all(
        torch.equal(a, b) for a, b in zip(*(each[0].parameters() for each in (first, second)), strict=True)
    )
    assert [line.split(",")[0] for line in lines] == [f"it: {n} of 8 updates" for n in (2, 4, 6, 8)]


def test_the_random_numbers_of_the_caller_go_on_as_they_would_have():
    torch.manual_seed(4)
    wanted = torch.rand(3)
    torch.manual_seed(4)
    with seeded(9):
        inside = torch.rand(3)
    assert torch.equal(torch.rand(3), wanted)
    torch.manual_seed(9)
    assert torch.equal(inside, torch.rand(3))


def test_it_trains_in_one_thread_and_leaves_the_number_as_it_was():
    before, inside = torch.get_num_threads(), []
    torch.set_num_threads(2)
    try:
        learn(
            counter,
            CountFeed(seed=1, rows=7),
            SETTINGS,
            seed=1,
            name="it",
            progress=lambda line: inside.append(torch.get_num_threads()),
        )
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert {*inside} == {1}


def test_an_interruption_ends_the_figure_instead_of_drawing_half_a_training():
    def interrupted(line):
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        learn(counter, CountFeed(seed=1, rows=7), SETTINGS, seed=1, name="it", progress=interrupted)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"seed": -1, "steps": 1}, "--seed -1: from 0 to"),
        ({"seed": 2**63, "steps": 1}, "--seed 9223372036854775808"),
        ({"seed": 0, "steps": 0}, "--steps 0: from 1 to 1,000,000,000"),
        ({"seed": 0, "steps": 2**40}, "--steps 1099511627776"),
    ],
)
def test_options_out_of_range_are_refused(options, said):
    check_options(seed=0, steps=1)
    with pytest.raises(RegardError, match=said):
        check_options(**options)
