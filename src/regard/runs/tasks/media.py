"""Pictures and recordings with their classes or texts, in pools for training, validation and test: files, or digits."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from glob import has_magic
from typing import Literal

from torch import Tensor

from regard.data.audio import read_sounds, resample, together, usable_sounds
from regard.data.batches import AnyBatch, Feed, Images, Sounds
from regard.data.digits import digit_split, digits
from regard.data.files import Told, read_folder, read_table
from regard.data.idx import read_mnist
from regard.data.images import Frame, read_images, read_packed, usable_images
from regard.data.media_feeds import (
    FilePictures,
    FileRecordings,
    HeldPictures,
    HeldRecordings,
    Numbered,
)
from regard.data.numbers import english
from regard.data.prefetch import Prefetch
from regard.data.spoken import by_speaker, read_spoken_digits, recordings_place
from regard.data.text_lines import Report
from regard.errors import RegardError
from regard.runs.settings import DigitData, ImageData, SoundData, SpokenData
from regard.runs.tasks.prepared import located
from regard.runs.tasks.translation import SAMPLES, split_of

HELD = 1 << 30  # bytes of pictures or sound that are kept in memory; more are read as they are needed


@dataclass(frozen=True, eq=False)
class Pool:
    """Inputs, the class or the text of each, and a name for each that decides whether it is held out."""

    inputs: Numbered
    told: Sequence[str]
    names: Sequence[str]

    def some(self, numbers: Sequence[int]) -> "Pool":
        """These of them."""
        return Pool(
            self.inputs.some(numbers),
            [self.told[number] for number in numbers],
            [self.names[number] for number in numbers],
        )

    def samples(self) -> list[tuple[str, str]]:
        """The first few: the name and the class or text of each."""
        some = zip(self.names[:SAMPLES], self.told[:SAMPLES], strict=True)
        return [(name or f"sample {number}", told) for number, (name, told) in enumerate(some)]

    def batch(self, numbers: Sequence[int]) -> Images | Sounds:
        """These inputs as they are."""
        found = self.inputs.at(numbers)
        return Images(found) if isinstance(found, Tensor) else together(found)

    def numbers(self, labels: Sequence[str]) -> list[int]:
        """The labels, as numbers of classes."""
        known = {label: number for number, label in enumerate(labels)}
        unknown = next((each for each in self.told if each not in known), None)
        if unknown is not None:
            raise RegardError(
                f"the class {unknown!r} is not among those of training: {', '.join(labels[:20])}"
            )
        return [known[each] for each in self.told]


def read_told(data: ImageData | SoundData, path: str, usual: tuple[str, str], report: Report) -> list[Told]:
    """The files of a folder with one folder a class, or of a table, and the label of each."""
    if not os.path.exists(path) and not has_magic(path):
        raise RegardError(f"{path}: no such file or folder")
    if os.path.isdir(path):
        return read_folder(path, policy=data.policy, report=report)
    return read_table(
        path, usual=usual, columns=data.columns, policy=data.policy, report=report, limit=data.longest
    )


def names_of(files: Sequence[Told], path: str) -> list[str]:
    """Names that stay the same when the folder or the table is moved."""
    return [os.path.relpath(each.path, path) for each in files]


def completed(pools: dict[str, Pool], share: float) -> dict[str, Pool]:
    """Pools for every split: what was not given is held out of the training pool, decided by the names alone."""
    held_out = [split for split in ("valid", "test") if split not in pools]
    every = pools["train"]
    chosen: dict[str, list[int]] = {split: [] for split in ("train", *held_out)}
    for number, name in enumerate(every.names):
        chosen[split_of(name, share, held_out)].append(number)
    for split, numbers in chosen.items():
        if not numbers:
            raise RegardError(
                f"data.{split}: {share:.0%} of {len(every.names)} samples leave none for it; give "
                f"data.{split}, or another data.held_out"
            )
    return {**pools, **{split: every.some(numbers) for split, numbers in chosen.items()}}


def prefetched(feed: Feed[AnyBatch], inputs: Numbered) -> Feed[AnyBatch]:
    """The feed; read ahead of being asked if its inputs are on disk."""
    return Prefetch(feed) if isinstance(inputs, FilePictures | FileRecordings) else feed


def picture_pools(
    data: DigitData | ImageData, report: Report, *, told: Literal["label", "caption"] = "label"
) -> dict[str, Pool]:
    """The pictures of each split, with their classes or their captions."""
    if isinstance(data, DigitData):
        pixels, labels = digits()
        parts = digit_split()
        held = HeldPictures(pixels)
        every = Pool(held, [str(each) for each in labels.tolist()], [""] * len(labels))
        return {
            "train": every.some(parts.train),
            "valid": every.some(parts.valid),
            "test": every.some(parts.test),
        }
    pools = {"train": _read_pictures(data, data.train, "train", told, report)}
    if data.valid is not None:
        known = data.valid == data.train
        pools["valid"] = pools["train"] if known else _read_pictures(data, data.valid, "train", told, report)
    mnist = is_mnist(located(data.folder, data.train))
    if data.test is not None or mnist:
        known = data.test == data.train and not mnist
        pools["test"] = (
            pools["train"] if known else _read_pictures(data, data.test or data.train, "test", told, report)
        )
    return completed(pools, data.held_out)


def _read_pictures(
    data: ImageData, place: str, part: Literal["train", "test"], told: str, report: Report
) -> Pool:
    path, frame = (
        located(data.folder, place),
        Frame(height=data.size[0], width=data.size[1], channels=data.channels),
    )
    if is_mnist(path):
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
        pictures: Numbered = HeldPictures(pixels)
    else:
        kept = usable_images(files, frame, policy=data.policy, report=report)
        pictures = FilePictures(kept, frame)
    return Pool(pictures, [each.text for each in kept], names_of(kept, path))


def is_mnist(path: str) -> bool:
    """Whether a folder holds the files of the MNIST family."""
    return any(os.path.exists(os.path.join(path, f"train-images-idx3-ubyte{end}")) for end in ("", ".gz"))


TENTH = 10  # every tenth recording of the speakers that are trained on is for validation


def sound_pools(
    data: SoundData | SpokenData, report: Report, *, rate: int, told: Literal["label", "text"] = "label"
) -> dict[str, Pool]:
    """The recordings of each split at the rate of the model, with their classes or what is said in them."""
    if isinstance(data, SpokenData):
        return _spoken(data, report, rate, told)
    own = {"train": data.train, "valid": data.valid, "test": data.test}
    places = dict.fromkeys(place for place in own.values() if place is not None)
    read = {place: _read_sounds(data, place, rate, told, report) for place in places}
    pools = {split: read[place] for split, place in own.items() if place is not None}
    return completed(pools, data.held_out)


def _read_sounds(data: SoundData, place: str, rate: int, told: str, report: Report) -> Pool:
    path = located(data.folder, place)
    files = read_told(data, path, ("file", told), report)
    # As numbers of four bytes, at another rate perhaps, a recording takes a few times the room of its file.
    if 4 * sum(os.path.getsize(each.path) for each in files if os.path.isfile(each.path)) <= HELD:
        sounds, kept = read_sounds(files, rate, policy=data.policy, report=report)
        recordings: Numbered = HeldRecordings(sounds)
    else:
        kept = usable_sounds(files, policy=data.policy, report=report)
        recordings = FileRecordings(kept, rate=rate)
    return Pool(recordings, [each.text for each in kept], names_of(kept, path))


def _spoken(data: SpokenData, report: Report, rate: int, told: str) -> dict[str, Pool]:
    """Digits as classes, "7", or in words, "seven". One speaker is held out, and some recordings of the others."""
    every = read_spoken_digits(recordings_place(located(data.folder, data.train)), report=report)
    learned, test = by_speaker(every, test=data.speaker)
    valid = learned[::TENTH]
    held = HeldRecordings([resample(each.samples, each.rate, to=rate) for each in every])
    texts = [english(each.digit) if told == "text" else str(each.digit) for each in every]
    pool = Pool(held, texts, [""] * len(texts))
    chosen = {"train": sorted({*learned} - {*valid}), "valid": valid, "test": test}
    return {split: pool.some(numbers) for split, numbers in chosen.items()}
