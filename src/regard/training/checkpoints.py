"""Checkpoints: files that survive whatever ends a process, and say so when they did not.

`step-00000500-<digest>.safetensors` holds all of a training after 500 updates, `best-…` the weights that were best so
far. The digest, of SHA-256 over the contents, is part of the name: it cannot be lost, nor belong to another file.
"""

import hashlib
import json
import os
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Tensor

from regard.data.atomic import write_atomically
from regard.runs.tensor_file import Checkpoint as Checkpoint
from regard.runs.tensor_file import CheckpointKind as CheckpointKind
from regard.runs.tensor_file import found as found


def write(
    folder: Path,
    step: int,
    tensors: Mapping[str, Tensor],
    *,
    about: Mapping[str, Any],
    kind: CheckpointKind = "step",
) -> Checkpoint:
    """A file that is there whole, and on the disk, or not at all."""
    contents = safetensors.torch.save(
        {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()},
        {"about": json.dumps(about)},
    )
    digest = hashlib.sha256(contents).hexdigest()[:16]
    path = folder / f"{kind}-{step:08d}-{digest}.safetensors"
    with suppress(OSError):  # writing says it in its own words
        folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, contents, lost="earlier checkpoints are as they were, so make room and resume")
    return Checkpoint(path, step)


def newest(folder: Path, *, broken: Callable[[Checkpoint], None]) -> Checkpoint | None:
    """The newest checkpoint whose contents are those that were written. Each newer one is told to `broken`."""
    for checkpoint in reversed(found(folder)):
        if checkpoint.intact():
            return checkpoint
        broken(checkpoint)
    return None


def set_aside(checkpoint: Checkpoint) -> str:
    """Rename a broken checkpoint, so that it is neither used nor lost; what was done, in words."""
    aside = checkpoint.path.with_name(checkpoint.path.name + ".broken")
    os.replace(checkpoint.path, aside)
    return f"{checkpoint.path.name} is broken (its contents are not those its name was given for): see {aside.name}"


def prune(folder: Path, steps: Collection[int], kind: CheckpointKind = "step") -> None:
    """Remove all checkpoints but those of these steps."""
    for checkpoint in found(folder, kind):
        if checkpoint.step not in steps:
            checkpoint.path.unlink(missing_ok=True)
