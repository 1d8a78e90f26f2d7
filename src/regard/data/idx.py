"""IDX files, in which the MNIST family comes: a few bytes of header, then the numbers (LeCun 1998)."""

import math
import os
import struct
from typing import Literal

import numpy as np
import torch
from jaxtyping import Int, UInt8
from numpy.typing import NDArray
from torch import Tensor

from regard.data.file_access import Unpacked, unpacking
from regard.errors import RegardError

MAX_BYTES = 4 << 30
_NAMES = {"train": "train", "test": "t10k"}


def read_idx(path: str) -> NDArray[np.uint8]:
    """The array in a file, gzip or plain. Only bytes are read: no set of pictures has anything else."""
    with unpacking(path) as file:
        return _array(path, file)


def read_idx_pair(images: str, labels: str) -> tuple[UInt8[Tensor, "n 1 height width"], Int[Tensor, " n"]]:
    """Grey pictures and the class of each, from two files that belong together."""
    pixels, classes = read_idx(images), read_idx(labels)
    if pixels.ndim != 3:
        raise RegardError(f"{images}: {pixels.ndim} axes, pictures have 3: number, height, width")
    if classes.ndim != 1:
        raise RegardError(f"{labels}: {classes.ndim} axes, labels have 1")
    if len(pixels) != len(classes):
        raise RegardError(f"{images} has {len(pixels)} pictures and {labels} has {len(classes)} labels")
    return torch.from_numpy(pixels)[:, None], torch.from_numpy(classes.astype(np.int64))


def read_mnist(
    folder: str, part: Literal["train", "test"]
) -> tuple[UInt8[Tensor, "n 1 height width"], Int[Tensor, " n"]]:
    """One part of a set under the usual names (train-images-idx3-ubyte …, t10k-labels-idx1-ubyte), .gz or not."""
    if part not in _NAMES:
        raise RegardError(f'part={part!r}: give "train" or "test"')
    images, labels = (
        _found(folder, f"{_NAMES[part]}-{kind}-ubyte") for kind in ("images-idx3", "labels-idx1")
    )
    return read_idx_pair(images, labels)


def _found(folder: str, name: str) -> str:
    for path in (os.path.join(folder, name), os.path.join(folder, name + ".gz")):
        if os.path.exists(path):
            return path
    raise RegardError(f"{folder}: neither {name} nor {name}.gz is there")


def _array(path: str, file: Unpacked) -> NDArray[np.uint8]:
    head = file.read(4)
    if len(head) < 4:
        raise RegardError(f"{path}: {len(head)} bytes, not even a header")
    if head[:2] != b"\0\0" or not 1 <= head[3] <= 8:
        raise RegardError(f"{path}: not an IDX file, it begins with {head.hex(' ')}")
    if head[2] != 0x08:
        raise RegardError(f"{path}: holds numbers of type 0x{head[2]:02x}, only bytes (0x08) are read")
    sizes = file.read(4 * head[3])
    if len(sizes) < 4 * head[3]:
        raise RegardError(f"{path}: ends within its header")
    shape = struct.unpack(f">{head[3]}I", sizes)
    said = " × ".join(map(str, shape))
    count = math.prod(shape)
    if not 0 < count <= MAX_BYTES:
        raise RegardError(
            f"{path}: says it holds {said} bytes; give at least one, at most {MAX_BYTES >> 30} GiB"
        )
    pieces, left = [], count
    while left and (piece := file.read(min(left, 1 << 24))):  # in pieces: a header may promise too much
        pieces.append(piece)
        left -= len(piece)
    if left:
        raise RegardError(f"{path}: says it holds {said} bytes, but ends after {count - left}")
    if file.read(1):
        raise RegardError(f"{path}: says it holds {said} bytes, but there are more")
    return np.frombuffer(bytearray(b"".join(pieces)), np.uint8).reshape(shape)
