"""The one exception of the library, and its one warning."""

import sys
import warnings


class RegardError(ValueError):
    """A mistake in what was asked for. The message names the offending values and says what to do."""


class RegardWarning(UserWarning):
    """Something that stops nothing but is hardly what was wanted. The message says why and what to do."""


def warn(message: str) -> None:
    """Give a RegardWarning that points at the line of the caller's own code, outside the library."""
    level, frame = 2, sys._getframe(1)
    ours = ("regard", "contextlib")  # the end of a `with` is called through contextlib
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ours:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, RegardWarning, stacklevel=level)
