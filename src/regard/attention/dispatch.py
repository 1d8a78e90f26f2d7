"""The one place that every attention call passes, where observers see it or change it.

Without an observer a call goes straight to its kernel. A watch only records the call; an intervention may put another
call in its place, or change the output. An observer belongs to a model: calls of other models pass it by.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Int
from torch import Tensor, nn

from regard.attention.call import Call


class AttentionObserver:
    """Sees the attention calls of one model, and may change them. `name` is the path of the module that attends."""

    changes = False  # whether it may change a call or its output
    wants_logsumexp = False  # whether the log-sum-exp is worth what it costs to get it from the kernel

    def place(self, within: str = "") -> str | None:
        """The module whose call this thread is making, if this observer follows it; else None.

        A fused module never enters its own attention module, whose name inside it is `within`.
        """
        raise NotImplementedError

    def covers(self, model: nn.Module) -> bool:
        """Whether calls of this model, made in this thread now, are seen or changed."""
        raise NotImplementedError

    def before(self, call: Call, name: str) -> Call:
        """The call to make instead."""
        return call

    def see(self, call: Call, name: str, logsumexp: Tensor | None) -> None:
        """A call was made. `logsumexp` is that of every query, where the kernel returned it."""

    def miss(self, reason: str, name: str) -> None:
        """A call was made that cannot be expressed as a `Call`, for this reason. It is computed as it is."""

    def after(self, output: Tensor, name: str) -> Tensor:
        """The output to return instead: [..., heads, queries, value width]."""
        return output

    def decoded(self, rows: Int[Tensor, "texts steps"]) -> None:
        """A decode of the model ended: the row of the batch that each text came from at each step, −1 after its end."""


Present = Sequence[tuple[AttentionObserver, str]]

# Registered observers, of any model and thread. Threads change it only by append and remove, and iterate over a copy.
observers: list[AttentionObserver] = []


def present(within: str = "") -> Present:
    """The observers that follow the call which this thread is making, each with its name for the attending module."""
    if torch.compiler.is_dynamo_compiling() and not _calls_compiled():
        return []
    found = [(observer, observer.place(within)) for observer in tuple(observers)]
    return [(observer, name) for observer, name in found if name is not None]


def _calls_compiled() -> bool:
    """Asked when a function is being compiled: whether an observed module calls it. Others' graphs must not break."""
    return any(observer.place() is not None for observer in tuple(observers))


# As torch.compiler.assume_constant_result does, which would import the compiler.
_calls_compiled._dynamo_marked_constant = True  # type: ignore[attr-defined]


def observed(model: nn.Module | None = None) -> bool:
    """Whether a forward pass of this model, run in this thread now, would be seen or changed.

    Without a model: whether the call that this thread is making is.
    """
    if not observers:
        return False
    if model is None:
        return bool(present())
    return any(observer.covers(model) for observer in tuple(observers))


def dispatch(
    call: Call, proceed: Callable[[Call], tuple[Tensor, Tensor | None]], here: Present | None = None
) -> Tensor:
    """Compute a call under its observers. `proceed` gives the output and, if known, the log-sum-exp."""
    here = present() if here is None else here
    for observer, name in here:
        call = observer.before(call, name)
    output, logsumexp = proceed(call)
    notify(here, call, logsumexp)
    for observer, name in reversed(here):
        output = observer.after(output, name)
    return output


def may_change(here: Present) -> bool:
    """Whether one of these observers may change the call."""
    return any(observer.changes for observer, _ in here)


def notify(here: Present, call: Call, logsumexp: Tensor | None = None) -> None:
    """Show a call to its observers."""
    for observer, name in here:
        observer.see(call, name, logsumexp)


def notify_missed(here: Present, error: Exception) -> None:
    """Report to its observers a call that could not be understood, and why, in one line."""
    for observer, name in here:
        observer.miss(reason_of(error), name)


def notify_decoded(model: nn.Module, rows: Int[Tensor, "texts steps"]) -> None:
    """Give the rows of a decode of this model to those that observe it."""
    for observer in tuple(observers):
        if observer.covers(model):
            observer.decoded(rows)


def reason_of(error: Exception) -> str:
    """The first line of an error's message."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
