"""Several files as one: a list of them, or a pattern such as `part-*.tsv`, taken in alphabetical order."""

import glob
import os
from collections.abc import Sequence

from regard.errors import RegardError


def matching(place: str | Sequence[str]) -> list[str]:
    """The files that a name, a pattern or a list of them stands for. A file of exactly that name comes first."""
    if not isinstance(place, str):
        if not place:
            raise RegardError("a list of no files: name at least one")
        return [path for each in place for path in matching(each)]
    if not glob.has_magic(place) or os.path.exists(place):
        return [place]
    found = sorted(glob.glob(place, recursive=True))
    if not found:
        raise RegardError(f"{place}: no file matches this pattern")
    return found
