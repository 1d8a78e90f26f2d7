"""Whether the files of a run are those that training wrote: every digest compared, on request."""

import os
from pathlib import Path

from regard.errors import RegardError
from regard.runs.checkpoint import Kind, called, found
from regard.runs.digests import SUMS, Digests


def verify_run(path: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """Every file that has a digest, with "as written", "changed" or "missing".

    Those are the files in SHA256SUMS, which the folders of others may have too, and the checkpoints of a run, which
    have their digests in their names.
    """
    checkpoint = called(path)
    folder = Path(path) if checkpoint is None else checkpoint.path.parent.parent
    if not folder.is_dir():
        raise RegardError(f"{path}: no such folder")
    kinds: tuple[Kind, ...] = ("step", "best")
    checkpoints = [each for kind in kinds for each in found(folder / "checkpoints", kind)]
    verified = [
        *Digests(folder).verified(),
        *(
            (f"checkpoints/{each.path.name}", "as written" if each.intact() else "changed")
            for each in checkpoints
        ),
    ]
    if not verified:
        raise RegardError(f"{path}: nothing to verify, for it has neither {SUMS} nor checkpoints")
    return verified
