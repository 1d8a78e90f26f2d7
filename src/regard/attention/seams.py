"""The seam: the one place every attention call passes, where it can be watched or changed from outside.

Without a bystander a call goes straight to its kernel. A watcher is told of the call and nothing else happens; an
intervention may put another call in its place, or change what comes back.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor

from regard.attention.call import Call


class Bystander:
    """Somebody at the seam. By default nothing is noticed and nothing changed."""

    changes = False  # whether it may change a call or its output
    hears = False  # whether the log-sum-exp is worth to it what telling costs

    def before(self, call: Call) -> Call:
        """The call to make instead."""
        return call

    def see(self, call: Call, value: Tensor | None, within: str = "", level: Tensor | None = None) -> None:
        """A call was made. A fused module keeps its values to itself (None), and enters not its own attention module,
        whose name is then `within` it. `level` is the log-sum-exp of every query, where the kernel told it.
        """

    def miss(self, reason: str, within: str = "") -> None:
        """A call was made that cannot be expressed as a `Call`, for this reason. It is computed as it is."""

    def after(self, output: Tensor) -> Tensor:
        """What comes back instead: [..., heads, queries, value width]."""
        return output


_standing: list[Bystander] = []


def through(call: Call, value: Tensor, proceed: Callable[[Call], tuple[Tensor, Tensor | None]]) -> Tensor:
    """Past the bystanders, to the kernel and back. `proceed` gives the output and, if it is known, the log-sum-exp."""
    for bystander in _standing:
        call = bystander.before(call)
    output, level = proceed(call)
    tell(call, value, level=level)
    for bystander in reversed(_standing):
        output = bystander.after(output)
    return output


def tell(call: Call, value: Tensor | None, within: str = "", level: Tensor | None = None) -> None:
    """Show a call to all bystanders."""
    for bystander in _standing:
        bystander.see(call, value, within, level)


def miss(error: Exception, within: str = "") -> None:
    """Tell all bystanders that a call could not be understood, and why, in one line."""
    for bystander in _standing:
        bystander.miss(reason_of(error), within)


def reason_of(error: Exception) -> str:
    """What an error says, in one line."""
    said = str(error).strip().splitlines()
    return said[0] if said else type(error).__name__


def attended() -> bool:
    """Whether anybody stands at the seam."""
    return bool(_standing)


def changing() -> bool:
    """Whether a bystander may change calls."""
    return any(bystander.changes for bystander in _standing)


def hearing() -> bool:
    """Whether a bystander wants to be told the log-sum-exp."""
    return any(bystander.hears for bystander in _standing)


@contextmanager
def standing(bystander: Bystander) -> Iterator[None]:
    """Stand at the seam for a while."""
    _standing.append(bystander)
    try:
        yield
    finally:
        _standing.remove(bystander)
