"""What all that answers texts checks first."""

from collections.abc import Sequence

from regard.errors import RegardError


def several(texts: Sequence[str]) -> Sequence[str]:
    """The texts, if they are a list of them: one text alone would be taken for a list of letters."""
    if isinstance(texts, str):
        raise RegardError(f"a list of texts is wanted, not one text: put it in brackets, [{texts[:30]!r}]")
    return texts
