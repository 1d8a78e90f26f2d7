"""The one exception of the library."""


class RegardError(ValueError):
    """A mistake in what was asked for. The message names the offending values and says what to do."""
