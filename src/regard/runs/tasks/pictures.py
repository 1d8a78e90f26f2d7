"""Pictures and their classes: the digits that come along, or the user's own."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from jaxtyping import Float
from torch import Tensor, nn

from regard.data.ahead import Ahead
from regard.data.augment import Jitter
from regard.data.batches import Feed
from regard.data.digits import SIDE, digit_split, digits
from regard.data.files import Told, read_folder, read_table
from regard.data.idx import read_mnist
from regard.data.images import Frame, read_images, usable_images
from regard.data.lines import Report
from regard.data.packed import read_packed
from regard.data.senses import FilePictures, HeldPictures, ImageFeed, Pictures
from regard.errors import RegardError
from regard.models.convolution import ConvolutionConfig
from regard.models.vision import VisionConfig
from regard.runs.metrics import Metric
from regard.runs.recipe import Recipe
from regard.runs.settings import DigitData, ImageData
from regard.runs.tasks.prepared import Prepared, likelihood, located
from regard.runs.tasks.translation import SPLITS, split_of

HELD = 1 << 30  # bytes of pictures that are kept in memory; more are read as they are needed


@dataclass(frozen=True, eq=False)
class Pool:
    """Pictures, the class of each, and a name for each that decides whether it is held out."""

    pictures: Pictures
    classes: Sequence[str]
    names: Sequence[str]

    def some(self, numbers: Sequence[int]) -> "Pool":
        """These of them."""
        some = _Some(self.pictures, numbers)
        return Pool(some, [self.classes[n] for n in numbers], [self.names[n] for n in numbers])


@dataclass(frozen=True, eq=False)
class _Some:
    """Some pictures of many, by new numbers."""

    pictures: Pictures
    numbers: Sequence[int]

    def __len__(self) -> int:
        return len(self.numbers)

    def at(self, numbers: Sequence[int]) -> Float[Tensor, "b channels height width"]:
        return self.pictures.at([self.numbers[number] for number in numbers])


def prepare(recipe: Recipe, report: Report, labels: list[str] | None = None) -> Prepared:
    """Pictures read, or looked at once; classes in alphabetical order."""
    data, config = recipe.data, recipe.model
    if not isinstance(config, VisionConfig | ConvolutionConfig):
        raise RegardError(f"model.kind: {config.KIND} does not look at pictures; take vision or convolution")
    if not isinstance(data, DigitData | ImageData):
        raise RegardError(f"data.kind: {data.KIND} holds no pictures; take digits or images")
    pools = pools_of(data, report)
    labels = labels or sorted(set(pools["train"].classes))
    if len(labels) < 2:
        raise RegardError(f"data.train: all pictures are of the class {labels[0]!r}")
    jitters = {"train": data.jitter, "valid": None, "test": None}
    feeds = {split: feed_of(recipe, pools[split], labels, jitters[split]) for split in SPLITS}

    def validate(model: nn.Module) -> list[Metric]:
        return likelihood(model, feeds["valid"])

    def test(model: nn.Module) -> list[Metric]:
        return likelihood(model, feeds["test"])

    size, channels = ((SIDE, SIDE), 1) if isinstance(data, DigitData) else (data.size, data.channels)
    return Prepared(
        config=replace(config, classes=len(labels), image_size=size, channels=channels),
        train=feeds["train"],
        validate=validate,
        test=test,
        labels=labels,
        facts={
            "training pictures": len(pools["train"].classes),
            "test pictures": len(pools["test"].classes),
            "classes": len(labels),
        },
    )


def feed_of(recipe: Recipe, pool: Pool, labels: Sequence[str], jitter: Jitter | None) -> Feed[Any]:
    """Pictures and the numbers of their classes. Those on disk are read ahead."""
    numbers = {label: number for number, label in enumerate(labels)}
    unknown = next((each for each in pool.classes if each not in numbers), None)
    if unknown is not None:
        raise RegardError(f"the class {unknown!r} is not among those of training: {', '.join(labels)}")
    chosen = [numbers[each] for each in pool.classes]
    feed = ImageFeed(pool.pictures, chosen, rows=recipe.training.batch, seed=recipe.seed, jitter=jitter)
    on_disk = isinstance(
        pool.pictures.pictures if isinstance(pool.pictures, _Some) else pool.pictures, FilePictures
    )
    return Ahead(feed) if on_disk else feed


def pools_of(data: DigitData | ImageData, report: Report) -> dict[str, Pool]:
    """The pictures of each split."""
    if isinstance(data, DigitData):
        pixels, labels = digits()
        parts = digit_split()
        every = Pool(HeldPictures(pixels), [str(each) for each in labels.tolist()], [""] * len(labels))
        return {
            "train": every.some(parts.train),
            "valid": every.some(parts.valid),
            "test": every.some(parts.test),
        }
    pools = {"train": _read(data, data.train, "train", report)}
    if data.valid is not None:
        pools["valid"] = _read(data, data.valid, "train", report)
    if data.test is not None or _is_mnist(located(data.folder, data.train)):
        pools["test"] = _read(data, data.test or data.train, "test", report)
    held_out = [split for split in ("valid", "test") if split not in pools]
    every = pools["train"]
    chosen: dict[str, list[int]] = {split: [] for split in ("train", *held_out)}
    for number, name in enumerate(every.names):
        chosen[split_of(name, data.held_out, held_out)].append(number)
    for split, numbers in chosen.items():
        if not numbers:
            raise RegardError(
                f"data.{split}: {data.held_out:.0%} of {len(every.names)} pictures leave none for it; give "
                f"data.{split}, or another data.held_out"
            )
        pools[split] = every.some(numbers)
    return pools


def _read(data: ImageData, place: str, part: Literal["train", "test"], report: Report) -> Pool:
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
        pixels, classes = read_packed(path, frame, columns=data.columns, policy=data.policy, report=report)
        return Pool(HeldPictures(pixels), classes, [str(n) for n in range(len(pixels))])
    told = _told(data, path, report)
    if len(told) * data.channels * data.size[0] * data.size[1] <= HELD:
        pixels, kept = read_images(told, frame, policy=data.policy, report=report)
        pictures: Pictures = HeldPictures(pixels)
    else:
        kept = usable_images(told, frame, policy=data.policy, report=report)
        pictures = FilePictures(kept, frame)
    return Pool(pictures, [each.text for each in kept], [os.path.relpath(each.path, path) for each in kept])


def _told(data: ImageData, path: str, report: Report) -> list[Told]:
    if not os.path.exists(path):
        raise RegardError(f"{path}: no such file or folder")
    if os.path.isdir(path):
        return read_folder(path, policy=data.policy, report=report)
    return read_table(
        path,
        usual=("file", "label"),
        columns=data.columns,
        policy=data.policy,
        report=report,
        limit=data.longest,
    )


def _is_mnist(path: str) -> bool:
    return any(os.path.exists(os.path.join(path, f"train-images-idx3-ubyte{end}")) for end in ("", ".gz"))
