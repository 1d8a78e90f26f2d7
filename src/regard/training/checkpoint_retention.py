"""Which checkpoints a training keeps, and which weights it ends with.

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

from regard.data.atomic import tidy, write_atomically
from regard.errors import RegardError
from regard.runs.settings import Training
from regard.runs.tensor_file import Checkpoint, CheckpointKind, found
from regard.training.model_weights import mean_of
from regard.training.state import TrainingState


def write_checkpoint(
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


def newest_checkpoint(folder: Path, *, broken: Callable[[Checkpoint], None]) -> Checkpoint | None:
    """The newest checkpoint whose contents are those that were written. `broken` is called with each newer one."""
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


def remove_others(folder: Path, steps: Collection[int], kind: CheckpointKind = "step") -> None:
    """Remove all checkpoints but those of these steps."""
    for checkpoint in found(folder, kind):
        if checkpoint.step not in steps:
            checkpoint.path.unlink(missing_ok=True)


class CheckpointRetention:
    """The checkpoints of one training. Only the first process writes here."""

    def __init__(self, folder: Path, settings: Training) -> None:
        self.folder, self.settings = folder, settings

    def open(self, *, resume: bool, notices: list[str]) -> Checkpoint | None:
        """The checkpoint to go on from, if there is one. Newer ones that are broken are set aside and noted."""
        tidy(self.folder)
        if not resume:
            if found(self.folder):
                raise RegardError(f"{self.folder} has checkpoints already: resume, or use another folder")
            return None
        there = len(found(self.folder))
        newest = newest_checkpoint(self.folder, broken=lambda each: notices.append(set_aside(each)))
        if newest is None:
            missing = f"none of the {there} checkpoints is whole" if there else "there is no checkpoint yet"
            notices.append(f"{missing}: training starts at step 0")
        return newest

    def save(self, state: TrainingState, *, made_with: Mapping[str, object]) -> Path:
        """A checkpoint; then, when it is safe, those that are no longer needed go."""
        step = state.progress.step
        about = {**state.about(), "made_with": made_with}
        new = write_checkpoint(self.folder, step, state.tensors(), about=about)
        self.prune(state, new)
        return new.path

    def prune(self, state: TrainingState, newest: Checkpoint) -> None:
        """Remove what is no longer needed once a checkpoint of this state is safe."""
        for each in found(self.folder):
            if each.step == newest.step and each.path != newest.path:  # made before an interrupted evaluation
                each.path.unlink(missing_ok=True)
        recent = [each.step for each in found(self.folder)][-self.settings.keep :]
        remove_others(self.folder, {*recent, *self._averaged(newest.step)})
        remove_others(self.folder, {state.progress.best_step}, "best")

    def save_best(self, state: TrainingState, weights: dict[str, Tensor]) -> None:
        """The best weights so far. The best before stay until a checkpoint knows of these."""
        write_checkpoint(
            self.folder, state.progress.step, weights, about=dict(state.progress.best), kind="best"
        )

    def best(self, step: int, notices: list[str]) -> dict[str, Tensor] | None:
        """The weights that were best, at this step; None, and noted, if they are gone."""
        for each in found(self.folder, "best"):
            if each.step == step and each.intact():
                return each.tensors()
        notices.append(
            f"the best weights, of step {step}, are gone from {self.folder}, or broken: the last are kept"
        )
        return None

    def mean(self, step: int, notices: list[str]) -> tuple[dict[str, Tensor], int]:
        """The mean of the last checkpoints up to a step, and of how many."""
        steps = self._averaged(step)
        several = []
        for each in found(self.folder):
            if each.step not in steps:
                continue
            if each.intact():
                several.append(each.tensors("weights/"))
            else:
                notices.append(f"{each.path.name} is broken: the mean is without it")
        return mean_of(several), len(several)

    def _averaged(self, end: int) -> list[int]:
        """The steps that the mean is over. One saved only because of a signal is not: it would change the result."""
        last, save = self.settings.averaging.last, self.settings.save
        steps = [each.step for each in found(self.folder)]
        regular = [step for step in steps if step == end or step % save == 0]
        return regular[-last:] if last else []
