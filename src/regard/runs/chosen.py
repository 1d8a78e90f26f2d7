"""Which weights a path means: the final ones of a run, a checkpoint that is named, or the best of a run not finished yet."""

import os
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from regard.errors import warn
from regard.runs.checkpoint import Checkpoint, Kind, called, found
from regard.runs.folder import RunFolder
from regard.runs.tensor_file import Header


@dataclass(frozen=True)
class Chosen:
    """A run, and where its weights are taken from."""

    run: RunFolder
    checkpoint: Checkpoint | None  # None: model.safetensors

    @property
    def path(self) -> Path:
        """Where the weights are."""
        return self.run.weights if self.checkpoint is None else self.checkpoint.path

    def header(self) -> Header:
        """What the file says that it holds of the model."""
        return self.run.weights_header() if self.checkpoint is None else self.checkpoint.weights_header()

    def weights(self) -> dict[str, Tensor]:
        """The tensors of the model."""
        return self.run.load_weights() if self.checkpoint is None else self.checkpoint.weights()


def chosen(path: str | os.PathLike[str], *, accept_changes: bool = False) -> Chosen:
    """The weights that a path means. Of a run without final ones a warning says which checkpoint is taken."""
    run, checkpoint = run_of(path, accept_changes=accept_changes), called(path)
    if checkpoint is None and not os.path.lexists(run.weights):
        checkpoint = _best(run)
    return Chosen(run, checkpoint)


def run_of(path: str | os.PathLike[str], *, accept_changes: bool = False) -> RunFolder:
    """The run that a path means, be it of the run or of one of its checkpoints."""
    checkpoint = called(path)
    folder = path if checkpoint is None else checkpoint.path.parent.parent
    return RunFolder.existing(folder, accept_changes=accept_changes)


def _best(run: RunFolder) -> Checkpoint | None:
    """The best checkpoint of a run that is not finished, else its newest; a broken one is passed over, and named."""
    broken: list[str] = []
    kinds: tuple[tuple[Kind, str], ...] = (("best", "best"), ("step", "newest"))
    for kind, word in kinds:
        for each in reversed(found(run.checkpoints, kind)):
            if each.intact():
                without = f" that is whole ({', '.join(broken)} is not)" if broken else ""
                warn(
                    f"{run.path} is not finished: taking its {word} checkpoint{without}, of step {each.step:,}; finish it "
                    f"with `regard resume {run.path}`"
                )
                return each
            broken.append(each.path.name)
    return None
