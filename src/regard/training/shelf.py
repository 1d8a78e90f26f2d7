"""The shelf: which checkpoints a training keeps, and which weights it ends with."""

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from regard.data.atomic import tidy
from regard.errors import RegardError
from regard.runs.settings import Training
from regard.training import checkpoints
from regard.training.averaging import mean_of
from regard.training.checkpoints import Checkpoint
from regard.training.state import State


class Shelf:
    """The checkpoints of one training. Only the first process writes here."""

    def __init__(self, folder: Path, settings: Training) -> None:
        self.folder, self.settings = folder, settings

    def open(self, *, resume: bool, notices: list[str]) -> Checkpoint | None:
        """The checkpoint to go on from, if there is one. Newer ones that are broken are set aside and noted."""
        tidy(self.folder)
        if not resume:
            if checkpoints.found(self.folder):
                raise RegardError(f"{self.folder} has checkpoints already: resume, or use another folder")
            return None
        there = len(checkpoints.found(self.folder))
        newest = checkpoints.newest(
            self.folder, broken=lambda each: notices.append(checkpoints.set_aside(each))
        )
        if newest is None:
            found = f"none of the {there} checkpoints is whole" if there else "there is no checkpoint yet"
            notices.append(f"{found}: training starts at step 0")
        return newest

    def save(self, state: State, *, made_with: Mapping[str, object]) -> Path:
        """A checkpoint; then, when it is safe, those that are no longer needed go."""
        step = state.standing.step
        about = {**state.about(), "made_with": made_with}
        new = checkpoints.write(self.folder, step, state.tensors(), about=about)
        self.prune(state, new)
        return new.path

    def prune(self, state: State, newest: Checkpoint) -> None:
        """Remove what is no longer needed once a checkpoint of this state is safe."""
        for each in checkpoints.found(self.folder):
            if each.step == newest.step and each.path != newest.path:  # made before an interrupted evaluation
                each.path.unlink(missing_ok=True)
        recent = [each.step for each in checkpoints.found(self.folder)][-self.settings.keep :]
        checkpoints.prune(self.folder, {*recent, *self._averaged(newest.step)})
        checkpoints.prune(self.folder, {state.standing.best_step}, "best")

    def save_best(self, state: State, weights: dict[str, Tensor]) -> None:
        """The best weights so far. The best before stay until a checkpoint knows of these."""
        checkpoints.write(
            self.folder, state.standing.step, weights, about=dict(state.standing.best), kind="best"
        )

    def best(self, step: int, notices: list[str]) -> dict[str, Tensor] | None:
        """The weights that were best, at this step; None, and noted, if they are gone."""
        for each in checkpoints.found(self.folder, "best"):
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
        for each in checkpoints.found(self.folder):
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
        steps = [each.step for each in checkpoints.found(self.folder)]
        regular = [step for step in steps if step == end or step % save == 0]
        return regular[-last:] if last else []
