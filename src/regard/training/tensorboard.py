"""TensorBoard: the same curves, for those who watch them there."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from regard.errors import RegardError
from regard.training.observers import Means, Observer, Update


class TensorBoard(Observer):
    """Writes event files of TensorBoard to a folder: `train/…` every so many updates, `evaluation/…` when there is one."""

    def __init__(self, folder: Path, *, every: int = 10) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise RegardError("TensorBoard is not installed: pip install 'regard[tensorboard]'") from error
        self._folder, self._every, self._open = folder, every, SummaryWriter
        self._writer: Any = None
        self._means = Means()

    def started(self, model: nn.Module, *, step: int, steps: int) -> None:
        """Begin, or go on: what was written of later steps is no longer shown."""
        self._writer = self._open(str(self._folder), purge_step=step + 1 if step else None)
        self._means = Means()

    def stepped(self, update: Update) -> None:
        """Averages since the last time."""
        self._means.add(update)
        if update.step % self._every == 0:
            shown = {**self._means.per_token(), "rate": update.rate, "norm": update.norm}
            self._add("train", shown, update.step)
            self._means = Means()

    def evaluated(self, step: int, metrics: Mapping[str, float]) -> None:
        """Every metric."""
        self._add("evaluation", metrics, step)

    def close(self) -> None:
        """Have everything written."""
        if self._writer is not None:
            self._writer.close()

    def _add(self, group: str, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(f"{group}/{name}", value, step)
