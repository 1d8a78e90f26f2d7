"""Signals: being asked to stop, and stopping where nothing is lost."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

EXIT_STOPPED = (
    75  # what a process exits with that was asked to stop, has saved, and can be resumed (EX_TEMPFAIL)
)


class Interruption:
    """While this is open, SIGTERM and SIGINT are remembered instead of obeyed. A second SIGINT is obeyed at once."""

    def __init__(self) -> None:
        self.asked = False
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

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = True
