"""Safetensors files from outside, and the checkpoints of a run. The header is read and checked first, the tensors only then.

`step-00000500-<digest>.safetensors` holds all of a training after 500 updates, `best-…` the weights that were best so
far. The digest, of SHA-256 over the contents, is part of the name: it cannot be lost, nor belong to another file.
"""

import hashlib
import math
import os
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from regard.data.bounded import PathName, opened, parse_settings
from regard.errors import RegardError

MAX_HEADER = 16 << 20  # bytes; a hundred thousand tensors take about that

_DTYPES = {
    "BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "I16": torch.int16, "I32": torch.int32,
    "I64": torch.int64, "F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64,
}  # fmt: skip


@dataclass(frozen=True)
class Described:
    """A tensor as a header has it."""

    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many numbers it has."""
        return math.prod(self.shape)


@dataclass(frozen=True, kw_only=True)
class Header:
    """What a file says it holds."""

    tensors: Mapping[str, Described]
    about: Mapping[str, str] = field(default_factory=dict)  # what was written beside them

    def within(self, prefix: str) -> "Header":
        """Of the tensors whose names begin so, by the rest of their names."""
        kept = {
            name.removeprefix(prefix): each for name, each in self.tensors.items() if name.startswith(prefix)
        }
        return Header(tensors=kept, about=self.about)


def read_header(path: PathName, *, within: PathName | None = None) -> Header:
    """The header of a file, bounded in size; each tensor of a dtype that is known and as long as its shape says."""
    with opened(path, within=within) as file:
        head = file.read(8)
        length = struct.unpack("<Q", head)[0] if len(head) == 8 else 0
        rest = os.fstat(file.fileno()).st_size - 8 - length
        if not 2 <= length <= MAX_HEADER or rest < 0:
            raise _broken(path, f"its header cannot be {length:,} bytes long")
        text = file.read(length)
    try:
        found = parse_settings(text.decode("utf-8"), "its header")
    except UnicodeDecodeError:
        raise _broken(path, "its header is not UTF-8") from None
    except RegardError as error:
        raise _broken(path, str(error)) from None
    about = found.pop("__metadata__", {})
    if not isinstance(about, dict) or not all(isinstance(each, str) for each in about.values()):
        raise _broken(path, "what is written beside its tensors is not text")
    return Header(
        tensors={name: _described(path, name, each, rest) for name, each in found.items()}, about=about
    )


def load_tensors(path: PathName, *, prefix: str = "", within: PathName | None = None) -> dict[str, Tensor]:
    """The tensors whose names begin so, by the rest of their names."""
    read_header(path, within=within)
    try:
        with safe_open(path, "pt") as file:
            names = [name for name in file.keys() if name.startswith(prefix)]  # noqa: SIM118, it is no mapping
            return {name.removeprefix(prefix): file.get_tensor(name) for name in names}
    except (SafetensorError, OSError, RuntimeError, ValueError, TypeError) as error:
        raise _broken(path, " ".join(str(error).split())) from None


def _described(path: PathName, name: str, told: object, room: int) -> Described:
    match told:
        case {"dtype": str(dtype), "shape": [*shape], "data_offsets": [int(start), int(end)]} if (
            dtype in _DTYPES and all(type(size) is int and size >= 0 for size in shape)
        ):
            found = Described(_DTYPES[dtype], tuple(shape))
            size = found.count * found.dtype.itemsize
            if start >= 0 and start + size == end <= room:
                return found
            raise _broken(
                path, f"{name[:80]} would be {size:,} bytes, and {end - start:,} of {room:,} are its own"
            )
    raise _broken(path, f"{name[:80]} has no dtype, shape or place that can be read")


def _broken(path: PathName, why: str) -> RegardError:
    return RegardError(f"{path} is broken: {why}")


CheckpointKind = Literal["step", "best"]

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


def found(folder: Path, kind: CheckpointKind = "step") -> list[Checkpoint]:
    """The checkpoints of a folder, oldest first, by their names alone."""
    names = [match for path in folder.glob(f"{kind}-*") if (match := _NAME.fullmatch(path.name))]
    return sorted((Checkpoint(folder / name[0], int(name[2])) for name in names), key=lambda each: each.step)


def called(path: str | os.PathLike[str]) -> Checkpoint | None:
    """The checkpoint of a run that a path means, `RUN/checkpoints/step-500` or all of its name; None for other paths."""
    path = Path(path)
    name = _CALLED.fullmatch(path.name)
    if name is None or path.parent.name != "checkpoints":
        return None
    kinds: tuple[CheckpointKind, ...] = ("step", "best")
    there = [each for kind in kinds for each in found(path.parent, kind)]
    for each in there:
        if each.path.name == path.name or (
            name[3] is None and each.step == int(name[2]) and each.path.name.startswith(name[1])
        ):
            return each
    names = ", ".join(f"{each.path.name.split('-')[0]}-{each.step}" for each in there)
    raise RegardError(f"{path}: there is no such checkpoint; there are {names or 'none'}")
