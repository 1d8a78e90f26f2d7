"""Safetensors files from outside: the header is read and checked first, the tensors only then."""

import math
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from regard.data.bounded import PathName, opened, parse_settings
from regard.errors import RegardError

MOST_HEADER = 16 << 20  # bytes; a hundred thousand tensors take about that

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
        if not 2 <= length <= MOST_HEADER or rest < 0:
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
