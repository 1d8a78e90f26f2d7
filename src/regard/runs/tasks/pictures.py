"""Pictures and what is told about each: the digits that come along, or the user's own."""

import os
from typing import Literal

from regard.data.digits import digit_split, digits
from regard.data.idx import read_mnist
from regard.data.images import Frame, read_images, read_packed, usable_images
from regard.data.media_feeds import FilePictures, HeldPictures, Pictures
from regard.data.text_lines import Report
from regard.errors import RegardError
from regard.runs.settings import DigitData, ImageData
from regard.runs.tasks.pools import HELD, Pool, completed, names_of, read_told
from regard.runs.tasks.prepared import located


def pools_of(
    data: DigitData | ImageData, report: Report, *, told: Literal["label", "caption"] = "label"
) -> dict[str, Pool[Pictures]]:
    """The pictures of each split, with their classes or their captions."""
    if isinstance(data, DigitData):
        pixels, labels = digits()
        parts = digit_split()
        held: Pictures = HeldPictures(pixels)
        every = Pool(held, [str(each) for each in labels.tolist()], [""] * len(labels))
        return {
            "train": every.some(parts.train),
            "valid": every.some(parts.valid),
            "test": every.some(parts.test),
        }
    pools = {"train": _read(data, data.train, "train", told, report)}
    if data.valid is not None:
        known = data.valid == data.train
        pools["valid"] = pools["train"] if known else _read(data, data.valid, "train", told, report)
    mnist = _is_mnist(located(data.folder, data.train))
    if data.test is not None or mnist:
        known = data.test == data.train and not mnist
        pools["test"] = (
            pools["train"] if known else _read(data, data.test or data.train, "test", told, report)
        )
    return completed(pools, data.held_out)


def _read(
    data: ImageData, place: str, part: Literal["train", "test"], told: str, report: Report
) -> Pool[Pictures]:
    path, frame = (
        located(data.folder, place),
        Frame(height=data.size[0], width=data.size[1], channels=data.channels),
    )
    if _is_mnist(path):
        pixels, labels = read_mnist(path, part)
        if tuple(pixels.shape[1:]) != (data.channels, *data.size):
            _, height, width = pixels.shape[1:]
            raise RegardError(
                f"{path} has grey pictures of {height} × {width}: set data.size=[{height},{width}] and data.channels=1"
            )
        return Pool(
            HeldPictures(pixels),
            [f"{each}" for each in labels.tolist()],
            [str(n) for n in range(len(pixels))],
        )
    if path.endswith(".parquet"):
        pixels, texts = read_packed(
            path, frame, usual=("image", told), columns=data.columns, policy=data.policy, report=report
        )
        return Pool(HeldPictures(pixels), texts, [str(n) for n in range(len(pixels))])
    files = read_told(data, path, ("file", told), report)
    if len(files) * data.channels * data.size[0] * data.size[1] <= HELD:
        pixels, kept = read_images(files, frame, policy=data.policy, report=report)
        pictures: Pictures = HeldPictures(pixels)
    else:
        kept = usable_images(files, frame, policy=data.policy, report=report)
        pictures = FilePictures(kept, frame)
    return Pool(pictures, [each.text for each in kept], names_of(kept, path))


def _is_mnist(path: str) -> bool:
    return any(os.path.exists(os.path.join(path, f"train-images-idx3-ubyte{end}")) for end in ("", ".gz"))
