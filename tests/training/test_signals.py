"""Being asked to stop."""

import os
import signal
import threading

import pytest

from regard.training.signals import EXIT_STOPPED, Interruption


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
