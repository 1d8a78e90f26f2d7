"""Pictures inside a Parquet file: a column of PNG or JPEG bytes, and one of what is told about each."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from jaxtyping import UInt8
from torch import Tensor

from regard.data.images import Frame, judge_image
from regard.data.lines import Flaw, Policy, Report, dealing
from regard.data.records import Column, Wanted
from regard.errors import RegardError


def read_packed(
    path: str,
    frame: Frame,
    *,
    columns: Sequence[Column] | None = None,
    policy: Policy = "error",
    report: Report | None = None,
) -> tuple[UInt8[Tensor, "n channels height width"], list[str]]:
    """The pictures of a file that can be used, and what is told about each (`image` and `label`, or the first two).

    The first column holds bytes, or structures with bytes in them, as sets of pictures are commonly shared.
    """
    dealt = dealing("row", policy, report)
    pixels, texts = [], []
    for number, data, text in _rows(path, Wanted(usual=("image", "label"), columns=columns)):
        picture = data if isinstance(data, Flaw) else judge_image(data, frame)
        if isinstance(picture, Flaw):
            dealt.drop(path, number, picture)
        else:
            pixels.append(picture)
            texts.append(text)
    if not pixels:
        raise RegardError(f"{path}: no picture in it can be used")
    return torch.stack(pixels), texts


def _rows(path: str, wanted: Wanted) -> Iterator[tuple[int, bytes | Flaw, str]]:
    """Numbers of rows, counted from 1, each with the bytes of its picture or why there are none, and its text."""
    try:
        from pyarrow import ArrowException, parquet  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError:
        raise RegardError(f"{path}: reading Parquet needs pyarrow: pip install 'regard[parquet]'") from None
    try:
        with parquet.ParquetFile(path) as file:
            present = file.schema_arrow.names
            names = [present[number] for number in wanted.among(path, present)]
            number = 0
            for batch in file.iter_batches(batch_size=64, columns=list(dict.fromkeys(names))):
                for value, told in zip(*(batch.column(name).to_pylist() for name in names), strict=True):
                    number += 1
                    yield number, _data(value, told), str(told)
    except FileNotFoundError:
        raise RegardError(f"{path}: no such file") from None
    except (ArrowException, OSError) as error:
        raise RegardError(f"{path}: cannot be read as Parquet ({str(error).splitlines()[0]})") from None


def _data(value: Any, told: Any) -> bytes | Flaw:
    if isinstance(value, dict):
        value = value.get("bytes")
    if not isinstance(value, bytes):
        return Flaw("no bytes", f"a {type(value).__name__} where the bytes of a picture are wanted")
    if not isinstance(told, str | int | float):
        return Flaw("not text", f"a {type(told).__name__} where a label or a text is wanted")
    return value
