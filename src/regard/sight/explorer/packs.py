"""Packs: arrays of numbers with a small header, as the page reads them (web/PROTOCOL.md)."""

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
class Stored:
    """An array as it is written: the numbers meant are those in it times the scale."""

    array: NDArray[Any]
    scale: float = 1.0
    planes: bool = False  # low bytes before high bytes, which deflates better


def halves(values: Tensor | NDArray[Any], *, planes: bool = False) -> Stored:
    """Numbers as half floats, scaled by a power of two so that the largest is near 1: half floats end at 6e-8."""
    array = values.detach().cpu().float().numpy() if isinstance(values, Tensor) else np.asarray(values)
    finite = np.abs(array[np.isfinite(array)])
    largest = float(finite.max()) if finite.size else 0.0
    scale = 2.0 ** math.ceil(math.log2(largest)) if largest > 0 else 1.0
    return Stored(array=(array / scale).astype("<f2"), scale=scale, planes=planes)


def marked(values: Tensor) -> Tensor:
    """Weights that are no numbers as +∞: NaN marks a masked pair, or one that was not computed."""
    return values.masked_fill(values.isnan(), math.inf)


def singles(values: Tensor | NDArray[Any]) -> Stored:
    """Numbers as single floats."""
    array = values.detach().cpu().float().numpy() if isinstance(values, Tensor) else np.asarray(values)
    return Stored(array=array.astype("<f4"))


def small(values: Tensor | NDArray[Any]) -> Stored:
    """Whole numbers from 0 to 255, or truths."""
    array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    return Stored(array=array.astype("u1"))


def pack(arrays: Mapping[str, Stored], **fields: Any) -> bytes:
    """The bytes of a pack, not compressed."""
    bodies = [_body(stored) for stored in arrays.values()]

    def header(begins: int) -> bytes:
        told, at = [], begins
        for (name, stored), body in zip(arrays.items(), bodies, strict=True):
            one = {
                "name": name,
                "dtype": _NAMES[stored.array.dtype],
                "shape": list(stored.array.shape),
                "at": at,
            }
            one |= {} if stored.scale == 1.0 else {"scale": stored.scale}
            one |= {"planes": True} if stored.planes else {}
            told.append(one)
            at += _filled(len(body))
        return json.dumps({"arrays": told, **fields}, ensure_ascii=False, allow_nan=False).encode()

    begins = 0
    while (
        needed := 8 + _filled(len(header(begins)))
    ) > begins:  # the offsets are written in the header before the data
        begins = needed
    text = header(begins).ljust(begins - 8)
    found = [_MAGIC, len(text).to_bytes(4, "little"), text]
    found += [body.ljust(_filled(len(body)), b"\0") for body in bodies]
    return b"".join(found)


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The header of a pack and its arrays, scaled: what the page does, for tests and for those who read a pack here."""
    length = int.from_bytes(data[4:8], "little")
    header: dict[str, Any] = json.loads(data[8 : 8 + length])
    arrays = {}
    for one in header["arrays"]:
        dtype = np.dtype(_TYPES[one["dtype"]])
        count = math.prod(one["shape"])
        raw = np.frombuffer(data, "u1", count * dtype.itemsize, one["at"])
        if one.get("planes"):
            raw = np.ascontiguousarray(raw.reshape(dtype.itemsize, -1).T).reshape(-1)
        values = raw.view(dtype).reshape(one["shape"])
        scaled = dtype.kind == "f" or "scale" in one
        arrays[one["name"]] = values.astype("f4") * np.float32(one.get("scale", 1.0)) if scaled else values
    return header, arrays


def squeezed(data: bytes, *, level: int = 1) -> bytes:
    """The bytes as a gzip stream, the same for the same bytes."""
    return gzip.compress(data, level, mtime=0)


def _body(stored: Stored) -> bytes:
    array = np.ascontiguousarray(stored.array)
    if not stored.planes:
        return array.tobytes()
    split = array.reshape(-1).view("u1").reshape(-1, array.dtype.itemsize)
    return np.ascontiguousarray(split.T).tobytes()


def _filled(length: int) -> int:
    return -(-length // 8) * 8
