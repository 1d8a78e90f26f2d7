"""The one place that every attention call passes, where observers see it or change it.

Without an observer a call goes straight to its kernel. A watch only records the call; an intervention may put another
call in its place, or change the output.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor

from regard.attention.call import Call


class AttentionObserver:
    """Sees attention calls, and may change them. By default it ignores every call."""

    changes = False  # whether it may change a call or its output
    wants_logsumexp = False  # whether the log-sum-exp is worth what it costs to get it from the kernel

    def before(self, call: Call) -> Call:
        """The call to make instead."""
        return call

    def see(self, call: Call, value: Tensor | None, within: str = "", level: Tensor | None = None) -> None:
        """A call was made.

        A fused module does not expose its values (`value` is None) and never enters its own attention module, whose
        name inside it is `within`. `level` is the log-sum-exp of every query, where the kernel returned it.
        """

    def miss(self, reason: str, within: str = "") -> None:
        """A call was made that cannot be expressed as a `Call`, for this reason. It is computed as it is."""

    def after(self, output: Tensor) -> Tensor:
        """The output to return instead: [..., heads, queries, value width]."""
        return output


_observers: list[AttentionObserver] = []


def dispatch(call: Call, value: Tensor, proceed: Callable[[Call], tuple[Tensor, Tensor | None]]) -> Tensor:
    """Compute a call under all observers. `proceed` gives the output and, if known, the log-sum-exp."""
    for observer in _observers:
        call = observer.before(call)
    output, level = proceed(call)
    notify(call, value, level=level)
    for observer in reversed(_observers):
        output = observer.after(output)
    return output


def notify(call: Call, value: Tensor | None, within: str = "", level: Tensor | None = None) -> None:
    """Show a call to all observers."""
    for observer in _observers:
        observer.see(call, value, within, level)


def notify_missed(error: Exception, within: str = "") -> None:
    """Report to all observers a call that could not be understood, and why, in one line."""
    for observer in _observers:
        observer.miss(reason_of(error), within)


def reason_of(error: Exception) -> str:
    """The first line of an error's message."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def observed() -> bool:
    """Whether there is an observer."""
    return bool(_observers)


def may_change() -> bool:
    """Whether an observer may change calls."""
    return any(observer.changes for observer in _observers)


def wants_logsumexp() -> bool:
    """Whether an observer wants the log-sum-exp."""
    return any(observer.wants_logsumexp for observer in _observers)


@contextmanager
def observing(observer: AttentionObserver) -> Iterator[None]:
    """Register an observer for the duration of the context."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)
