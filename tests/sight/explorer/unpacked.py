"""Packs read back, as the page reads them (web/PROTOCOL.md)."""

import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

TYPES = {"u8": "<u1", "u16": "<u2", "i32": "<i4", "f16": "<f2", "f32": "<f4"}


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The header of a pack and its arrays, scaled, as the page reads them."""
    length = int.from_bytes(data[4:8], "little")
    header: dict[str, Any] = json.loads(data[8 : 8 + length])
    arrays = {}
    for one in header["arrays"]:
        dtype = np.dtype(TYPES[one["dtype"]])
        count = math.prod(one["shape"])
        raw = np.frombuffer(data, "u1", count * dtype.itemsize, one["at"])
        if one.get("planes"):
            raw = np.ascontiguousarray(raw.reshape(dtype.itemsize, -1).T).reshape(-1)
        values = raw.view(dtype).reshape(one["shape"])
        scaled = dtype.kind == "f" or "scale" in one
        arrays[one["name"]] = values.astype("f4") * np.float32(one.get("scale", 1.0)) if scaled else values
    return header, arrays
