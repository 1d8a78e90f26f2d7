"""The one exception of the library, its one warning, and being asked to stop by a signal. Imports nothing heavy."""

import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

# Exit code of a training that a signal stopped: it is saved and can be resumed (EX_TEMPFAIL).
EXIT_STOPPED = 75


class RegardError(ValueError):
    """A user's mistake. The message names the offending values and says what to do."""


class RegardWarning(UserWarning):
    """Something that stops nothing but is hardly what was wanted. The message says why and what to do."""


def warn(message: str) -> None:
    """Give a RegardWarning that points at the line of the caller's own code, outside the library."""
    level, frame = 2, sys._getframe(1)
    ours = ("regard", "contextlib")  # the end of a `with` is called through contextlib
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ours:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, RegardWarning, stacklevel=level)


class Interrupted(BaseException):
    """Raised inside `Interruption.at_once`. Like KeyboardInterrupt it is no `Exception`: nothing catches it in passing."""


class Interruption:
    """While this is open, SIGTERM and SIGINT are remembered instead of obeyed. A second SIGINT is obeyed at once."""

    def __init__(self) -> None:
        self.asked = False
        self._at_once = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():  # Python lets no other set handlers
            for name in (signal.SIGTERM, signal.SIGINT):
                self._before[name] = signal.signal(name, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name, before in self._before.items():
            signal.signal(name, before)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Around what can be left anywhere: a signal, or one that is remembered, raises `Interrupted` here, once."""
        self._at_once = True
        try:
            if self.asked:
                raise Interrupted
            yield
        finally:
            self._at_once = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        # Never twice: the second would break what cleans up after the first.
        first, self.asked = not self.asked, True
        if first and self._at_once:
            raise Interrupted
