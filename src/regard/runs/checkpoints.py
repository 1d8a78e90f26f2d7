"""Safetensors files from outside, and the checkpoints of a run: read, written and kept.

Of a file the header is read and checked first, the tensors only then. Matrices may be bytes with one scale a row, by the
rule of `optimise` in int8: a quarter of the space. `step-00000500-<digest>.safetensors` holds all of
a training after 500 updates, `best-…` the weights that were best so far. The digest, of SHA-256 over the contents, is
part of the name: it cannot be lost, nor belong to another file.
"""

import hashlib
import json
import math
import os
import re
import struct
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from regard.data.file_access import PathName, opened, tidy, write_atomically
from regard.data.given import parse_settings
from regard.errors import RegardError
from regard.layers.inference_only import int8_rows
from regard.runs.settings import Training

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


SCALE = ".int8_scale"  # after the name of a matrix: the name of its scales


def compressed(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Matrices in int8 with their scales; everything else as it is."""
    found = dict(tensors)
    for name, tensor in tensors.items():
        if tensor.ndim == 2 and tensor.is_floating_point():
            found[name], found[name + SCALE] = int8_rows(tensor.float())
    return found


def expanded(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a file in float32, whether its matrices are in int8 or not."""
    return {
        name: tensor.float() * tensors[name + SCALE][:, None] if name + SCALE in tensors else tensor
        for name, tensor in tensors.items()
        if not name.endswith(SCALE)
    }


def expanded_header(header: Header) -> Header:
    """The header that the file would have in float32; refused where scales do not fit their matrix."""
    known = header.tensors
    found = {name: each for name, each in known.items() if not name.endswith(SCALE)}
    for name, scale in known.items():
        if not name.endswith(SCALE):
            continue
        matrix = known.get(name.removesuffix(SCALE))
        if matrix is None or matrix.dtype != torch.int8 or len(matrix.shape) != 2:
            raise RegardError(f"{name[:80]} are scales of no matrix in int8")
        if scale.dtype != torch.float32 or scale.shape != matrix.shape[:1]:
            raise RegardError(
                f"{name[:80]} is {scale.dtype} {list(scale.shape)} for {matrix.shape[0]:,} rows"
            )
        found[name.removesuffix(SCALE)] = Described(torch.float32, matrix.shape)
    return Header(tensors=found, about=header.about)


CheckpointKind = Literal["step", "best"]

_NAME = re.compile(r"(step|best)-(\d{8,})-([0-9a-f]{16})\.safetensors")
_CALLED = re.compile(r"(step|best)-(\d+)(-[0-9a-f]{16}\.safetensors)?")


@dataclass(frozen=True, kw_only=True)
class TrainingProgress:
    """How far a training has come: kept in a checkpoint beside its tensors."""

    step: int = 0  # updates made
    epoch: int = 0
    position: int = 0  # batches of this epoch that were used
    metrics: Mapping[str, float] = field(default_factory=dict)  # of the last evaluation
    best: Mapping[str, float] = field(default_factory=dict)  # of the best
    best_step: int = 0
    waited: int = 0  # evaluations since the best
    due: bool = False  # the evaluation after this update was interrupted, and comes first


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

    def progress(self) -> TrainingProgress:
        """How far its training was. Contents that are no training's are refused, whatever their digest."""
        about = self.about()
        try:
            known = {each.name: about[each.name] for each in fields(TrainingProgress) if each.name in about}
            found = TrainingProgress(**known)
            counts = (found.step, found.epoch, found.position, found.best_step, found.waited)
            values = [*found.metrics.values(), *found.best.values()]
        except (TypeError, AttributeError):
            raise self.foreign("does not say how far its training was") from None
        if "step" not in about or not all(type(each) is int and each >= 0 for each in counts):
            raise self.foreign(f"counts {list(counts)}")
        if not all(type(value) in (int, float) for value in values):
            raise self.foreign("has metrics that are no numbers")
        return found

    def foreign(self, what: str) -> RegardError:
        """The error for contents that this training cannot have written."""
        return RegardError(
            f"{self.path.name} {what}: it was not written by this training; move it away to resume from an earlier one"
        )

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


def write_checkpoint(
    folder: Path,
    step: int,
    tensors: Mapping[str, Tensor],
    *,
    about: Mapping[str, Any],
    kind: CheckpointKind = "step",
) -> Checkpoint:
    """A file that is there whole, and on the disk, or not at all."""
    contents = save(
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

    def save(
        self, progress: TrainingProgress, tensors: Mapping[str, Tensor], *, made_with: Mapping[str, object]
    ) -> Path:
        """A checkpoint; then, when it is safe, those that are no longer needed go."""
        about = {**asdict(progress), "made_with": made_with}
        new = write_checkpoint(self.folder, progress.step, tensors, about=about)
        self.prune(new, best_step=progress.best_step)
        return new.path

    def prune(self, newest: Checkpoint, *, best_step: int) -> None:
        """Remove what is no longer needed once this checkpoint is safe."""
        for each in found(self.folder):
            if each.step == newest.step and each.path != newest.path:  # made before an interrupted evaluation
                each.path.unlink(missing_ok=True)
        recent = [each.step for each in found(self.folder)][-self.settings.keep :]
        remove_others(self.folder, {*recent, *self._averaged(newest.step)})
        remove_others(self.folder, {best_step}, "best")

    def save_best(self, progress: TrainingProgress, weights: Mapping[str, Tensor]) -> None:
        """The best weights so far. The best before stay until a checkpoint knows of these."""
        write_checkpoint(self.folder, progress.step, weights, about=dict(progress.best), kind="best")

    def best(self, step: int, notices: list[str]) -> dict[str, Tensor] | None:
        """The weights that were best, at this step; None, and noted, if they are gone."""
        for each in found(self.folder, "best"):
            if each.step == step and each.intact():
                return each.tensors()
        notices.append(
            f"the best weights, of step {step}, are gone from {self.folder}, or broken: the last are kept"
        )
        return None

    def averaged(self, step: int, notices: list[str]) -> list[dict[str, Tensor]]:
        """The weights of the last checkpoints up to a step, of which the mean is to be taken."""
        several = []
        for each in [one for one in found(self.folder) if one.step in self._averaged(step)]:
            if each.intact():
                several.append(each.tensors("weights/"))
            else:
                notices.append(f"{each.path.name} is broken: the mean is without it")
        return several

    def _averaged(self, end: int) -> list[int]:
        """The steps that the mean is over. One saved only because of a signal is not: it would change the result."""
        last, save = self.settings.averaging.last, self.settings.save
        steps = [each.step for each in found(self.folder)]
        regular = [step for step in steps if step == end or step % save == 0]
        return regular[-last:] if last else []
