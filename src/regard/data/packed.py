"""Pictures inside a Parquet file: a column of PNG or JPEG bytes, and one of what is told about each."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import UInt8
from torch import Tensor

from regard.data.headers import Column, Wanted
from regard.data.images import Frame, judge_image
from regard.data.lines import Flaw, Policy, Report, dealing
from regard.data.records import rows_of_parquet
from regard.errors import RegardError


def read_packed(
    path: str,
    frame: Frame,
    *,
    usual: tuple[str, str] = ("image", "label"),
    columns: Sequence[Column] | None = None,
    policy: Policy = "error",
    report: Report | None = None,
) -> tuple[UInt8[Tensor, "n channels height width"], list[str]]:
    """The pictures of a file that can be used, and the label or text of each (columns of the usual names, or those given).

    The first column holds bytes, or structures with bytes in them, as sets of pictures are commonly shared.
    """
    dealt = dealing("row", policy, report)
    pixels, texts = [], []
    wanted = Wanted(usual=usual, columns=columns)
    for number, (names, (value, told)) in enumerate(rows_of_parquet(path, wanted, together=64), start=1):
        dealt.report.layouts[path] = f"columns {' and '.join(map(repr, names))}"
        data, text = _data(value, told), str(told)
        picture = data if isinstance(data, Flaw) else judge_image(data, frame)
        if isinstance(picture, Flaw):
            dealt.drop(path, number, picture)
        else:
            pixels.append(picture)
            texts.append(text)
    if not pixels:
        raise RegardError(f"{path}: no picture in it can be used{dealt.report.reasons}")
    return torch.stack(pixels), texts


def _data(value: Any, told: Any) -> bytes | Flaw:
    if isinstance(value, dict):
        value = value.get("bytes")
    if not isinstance(value, bytes):
        return Flaw("no bytes", f"a {type(value).__name__} where the bytes of a picture are wanted")
    if not isinstance(told, str | int | float):
        return Flaw("not text", f"a {type(told).__name__} where a label or a text is wanted")
    if not str(told).strip():
        return Flaw("empty", "the label or the text is empty")
    return value
