"""Being asked to stop."""

import os
import signal
import threading

import pytest

from regard.training.signals import EXIT_STOPPED, Interrupted, Interruption


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_remembered_instead_of_obeyed(number: signal.Signals) -> None:
    with Interruption() as interruption:
        assert not interruption.asked
        os.kill(os.getpid(), number)
        assert interruption.asked


def test_a_second_sigint_is_obeyed_at_once() -> None:
    with Interruption() as interruption:
        os.kill(os.getpid(), signal.SIGINT)
        assert interruption.asked
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_a_second_sigterm_is_not() -> None:
    with Interruption() as interruption:
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGTERM)
        assert interruption.asked


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_where_nothing_is_lost_a_signal_is_obeyed_at_once(number: signal.Signals) -> None:
    went_on = False

    def work() -> None:
        nonlocal went_on
        os.kill(os.getpid(), number)
        went_on = True

    with Interruption() as interruption:
        with pytest.raises(Interrupted), interruption.at_once():
            work()
        assert not went_on
        os.kill(os.getpid(), signal.SIGTERM)  # remembered again, and not obeyed twice
        assert interruption.asked


def test_a_signal_that_was_remembered_is_obeyed_where_nothing_is_lost() -> None:
    with Interruption() as interruption:
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Interrupted), interruption.at_once():
            raise AssertionError("it went on")


def test_what_cleans_up_after_a_signal_is_not_stopped_by_a_second_one() -> None:
    cleaned = False

    def work() -> None:
        nonlocal cleaned
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            cleaned = True

    with Interruption() as interruption, pytest.raises(Interrupted), interruption.at_once():
        work()
    assert cleaned


def test_the_handlers_from_before_come_back_after_an_error() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    interruption = Interruption()
    with pytest.raises(ZeroDivisionError), interruption:
        raise ZeroDivisionError
    with interruption:
        assert signal.getsignal(signal.SIGTERM) != before[0]
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_in_another_thread_nothing_is_handled() -> None:
    seen: list[bool] = []

    def inside() -> None:
        with Interruption() as interruption:
            seen.append(interruption.asked)

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert seen == [False]


def test_the_exit_code_says_try_again() -> None:
    assert EXIT_STOPPED == os.EX_TEMPFAIL
