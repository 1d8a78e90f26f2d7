"""A warning points at the line of the user, and on the command line it is one line."""

import os
import signal
import subprocess
import sys
import threading
import types
import warnings
from contextlib import contextmanager
from pathlib import Path

import pytest

from regard import errors
from regard.cli import app, main
from regard.errors import EXIT_STOPPED, Interrupted, Interruption, warn


def test_a_warning_points_at_the_line_that_called_the_library() -> None:
    inside = types.ModuleType("regard.somewhere")  # as users have it: without the check of shapes in between
    exec(Path(errors.__file__).read_text("utf-8"), inside.__dict__)
    exec("def outer():\n    inner()\n\ndef inner():\n    warn('half empty')", inside.__dict__)
    inside.__dict__["contextmanager"] = contextmanager
    exec("@contextmanager\ndef during():\n    yield\n    warn('half empty')", inside.__dict__)
    with pytest.warns(inside.RegardWarning, match="half empty") as seen:
        inside.outer()
    with pytest.warns(inside.RegardWarning, match="half empty") as ended, inside.during():
        pass
    assert [each.filename for each in [*seen, *ended]] == [__file__] * 2


def test_the_command_line_says_each_warning_once_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def recipes() -> None:
        for _ in range(3):
            warn("the glass\nis half empty")
        warnings.warn("of somebody else", UserWarning, stacklevel=1)

    monkeypatch.setattr(
        next(each for each in app.registered_commands if each.callback.__name__ == "recipes"),
        "callback",
        recipes,
    )
    with pytest.raises(SystemExit) as left, pytest.warns(UserWarning, match="of somebody else"):
        main(["recipes"])
    assert left.value.code == 0
    assert capsys.readouterr().err.count("regard: the glass is half empty\n") == 1


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


def test_a_signal_is_remembered_before_torch_is_imported() -> None:
    """Importing torch takes seconds, in which a training may be asked to stop."""
    script = (
        "import sys\nfrom regard import errors\nfrom regard.cli import main\n"
        "class Opened(errors.Interruption):\n    def __enter__(self):\n        sys.exit('torch' in sys.modules)\n"
        "errors.Interruption = Opened\nmain(sys.argv[1:])"
    )
    for verb in ("train", "resume"):
        done = subprocess.run(
            [sys.executable, "-c", script, verb, "numbers"], capture_output=True, timeout=900
        )
        assert done.returncode == 0, done.stderr
