"""Binary answers to the page, arrays of numbers after a JSON header: the packs of web/PROTOCOL.md."""

import gzip
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

_MAGIC = b"RGD1"
_TYPES = {"u8": "<u1", "u16": "<u2", "i32": "<i4", "f16": "<f2", "f32": "<f4"}
_NAMES = {np.dtype(code): name for name, code in _TYPES.items()}


@dataclass(frozen=True, kw_only=True, eq=False)
class PayloadArray:
    """An array as it is written; its values are the stored numbers times the scale."""

    array: NDArray[Any]
    scale: float = 1.0
    planes: bool = False  # low bytes before high bytes, which deflates better


def halves(values: Tensor | NDArray[Any], *, planes: bool = False) -> PayloadArray:
    """Numbers as half floats, scaled by a power of two so that the largest is near 1: half floats end at 6e-8."""
    array = _numpy(values)
    finite = np.abs(array[np.isfinite(array)])
    largest = float(finite.max()) if finite.size else 0.0
    scale = 2.0 ** math.ceil(math.log2(largest)) if largest > 0 else 1.0
    return PayloadArray(array=(array / scale).astype("<f2"), scale=scale, planes=planes)


def mark_nan(values: Tensor) -> Tensor:
    """NaN weights as +∞: to the page, NaN is a masked pair, or one that was not computed."""
    return values.masked_fill(values.isnan(), math.inf)


def singles(values: Tensor | NDArray[Any]) -> PayloadArray:
    """Numbers as single floats."""
    return PayloadArray(array=_numpy(values).astype("<f4"))


def small(values: Tensor | NDArray[Any]) -> PayloadArray:
    """Whole numbers from 0 to 255, or truths."""
    array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    return PayloadArray(array=array.astype("u1"))


def _numpy(values: Tensor | NDArray[Any]) -> NDArray[Any]:
    return values.detach().cpu().float().numpy() if isinstance(values, Tensor) else np.asarray(values)


def pack(arrays: Mapping[str, PayloadArray], **fields: Any) -> bytes:
    """The bytes of a pack, not compressed."""
    bodies = [_body(stored) for stored in arrays.values()]

    def header(begins: int) -> bytes:
        told, at = [], begins
        for (name, stored), body in zip(arrays.items(), bodies, strict=True):
            shape, dtype = list(stored.array.shape), _NAMES[stored.array.dtype]
            one = {"name": name, "dtype": dtype, "shape": shape, "at": at}
            one |= {} if stored.scale == 1.0 else {"scale": stored.scale}
            one |= {"planes": True} if stored.planes else {}
            told.append(one)
            at += _filled(len(body))
        return json.dumps({"arrays": told, **fields}, ensure_ascii=False, allow_nan=False).encode()

    begins = 0  # the header holds the offsets of the data behind it
    while (needed := 8 + _filled(len(header(begins)))) > begins:
        begins = needed
    text = header(begins).ljust(begins - 8)
    found = [_MAGIC, len(text).to_bytes(4, "little"), text]
    found += [body.ljust(_filled(len(body)), b"\0") for body in bodies]
    return b"".join(found)


def gzipped(data: bytes, *, level: int = 1) -> bytes:
    """The bytes as a gzip stream, the same for the same bytes."""
    return gzip.compress(data, level, mtime=0)


def _body(stored: PayloadArray) -> bytes:
    array = np.ascontiguousarray(stored.array)
    if not stored.planes:
        return array.tobytes()
    split = array.reshape(-1).view("u1").reshape(-1, array.dtype.itemsize)
    return np.ascontiguousarray(split.T).tobytes()


def _filled(length: int) -> int:
    return -(-length // 8) * 8
