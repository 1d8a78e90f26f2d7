"""Checkpoints as they lie in a run: found by their names, and read.

`step-00000500-<digest>.safetensors` holds all of a training after 500 updates, `best-…` the weights that were best so
far. The digest, of SHA-256 over the contents, is part of the name: it cannot be lost, nor belong to another file.
"""

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from regard.data.bounded import opened, parse_settings
from regard.errors import RegardError
from regard.runs.tensor_file import Header, load_tensors, read_header

Kind = Literal["step", "best"]

_NAME = re.compile(r"(step|best)-(\d{8,})-([0-9a-f]{16})\.safetensors")
_CALLED = re.compile(r"(step|best)-(\d+)(-[0-9a-f]{16}\.safetensors)?")


@dataclass(frozen=True)
class Checkpoint:
    """A file and what its name says."""

    path: Path
    step: int

    def intact(self) -> bool:
        """Whether the contents are those that were written."""
        try:
            with opened(self.path) as file:
                return hashlib.file_digest(file, "sha256").hexdigest()[:16] == self.path.stem[-16:]
        except (OSError, RegardError):
            return False

    def about(self) -> dict[str, Any]:
        """What was written beside the tensors."""
        about = read_header(self.path, within=self.path.parent).about.get("about", "")
        return parse_settings(about, f"what {self.path} says about itself", finite=False)

    def tensors(self, prefix: str = "") -> dict[str, Tensor]:
        """The tensors whose names begin so, by the rest of their names."""
        return load_tensors(self.path, prefix=prefix, within=self.path.parent)

    def weights(self) -> dict[str, Tensor]:
        """Those of the model."""
        if not self.intact():
            raise RegardError(f"{self.path} is broken: its contents are not those its name was given for")
        return self.tensors(self._prefix)

    def weights_header(self) -> Header:
        """What the file says about those."""
        return read_header(self.path, within=self.path.parent).within(self._prefix)

    @property
    def _prefix(self) -> str:
        return "weights/" if self.path.name.startswith("step-") else ""


def found(folder: Path, kind: Kind = "step") -> list[Checkpoint]:
    """The checkpoints of a folder, oldest first, by their names alone."""
    names = [match for path in folder.glob(f"{kind}-*") if (match := _NAME.fullmatch(path.name))]
    return sorted((Checkpoint(folder / name[0], int(name[2])) for name in names), key=lambda each: each.step)


def called(path: str | os.PathLike[str]) -> Checkpoint | None:
    """The checkpoint of a run that a path means, `RUN/checkpoints/step-500` or all of its name; None for other paths."""
    path = Path(path)
    name = _CALLED.fullmatch(path.name)
    if name is None or path.parent.name != "checkpoints":
        return None
    kinds: tuple[Kind, ...] = ("step", "best")
    there = [each for kind in kinds for each in found(path.parent, kind)]
    for each in there:
        if each.path.name == path.name or (
            name[3] is None and each.step == int(name[2]) and each.path.name.startswith(name[1])
        ):
            return each
    names = ", ".join(f"{each.path.name.split('-')[0]}-{each.step}" for each in there)
    raise RegardError(f"{path}: there is no such checkpoint; there are {names or 'none'}")
