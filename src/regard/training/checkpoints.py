"""Checkpoints: files that survive whatever ends a process, and say so when they did not.

`step-00000500-<digest>.safetensors` holds all of a training after 500 updates, `best-…` the weights that were best so
far. The digest, of SHA-256 over the contents, is part of the name: it cannot be lost, nor belong to another file.
"""

import hashlib
import json
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Tensor

from regard.errors import RegardError
from regard.runs.checkpoint import Checkpoint as Checkpoint
from regard.runs.checkpoint import Kind as Kind
from regard.runs.checkpoint import found as found

_UNFINISHED = ".part"


def write(
    folder: Path, step: int, tensors: Mapping[str, Tensor], *, about: Mapping[str, Any], kind: Kind = "step"
) -> Checkpoint:
    """A file that is there whole, and on the disk, or not at all."""
    contents = safetensors.torch.save(
        {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()},
        {"about": json.dumps(about)},
    )
    digest = hashlib.sha256(contents).hexdigest()[:16]
    path = folder / f"{kind}-{step:08d}-{digest}.safetensors"
    unfinished = path.with_name(path.name + _UNFINISHED)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with unfinished.open("wb") as file:
            file.write(contents)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
        _settle(folder)
    except BaseException as error:
        unfinished.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise RegardError(
                f"the checkpoint of step {step} could not be written to {folder} ({error.strerror}): "
                "earlier ones are as they were, so make room and resume"
            ) from error
        raise
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


def prune(folder: Path, steps: Collection[int], kind: Kind = "step") -> None:
    """Remove all checkpoints but those of these steps."""
    for checkpoint in found(folder, kind):
        if checkpoint.step not in steps:
            checkpoint.path.unlink(missing_ok=True)


def tidy(folder: Path) -> None:
    """Remove what a killed process had begun to write."""
    for path in folder.glob("*" + _UNFINISHED):
        path.unlink(missing_ok=True)


def _settle(folder: Path) -> None:
    """Have the names of a folder on the disk too, where a system allows to ask for it."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
