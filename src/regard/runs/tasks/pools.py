"""Pools: pictures or recordings, each with what is told about it, divided into those to learn from and those held out."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from glob import has_magic
from typing import Generic, TypeVar

from torch import Tensor

from regard.data.audio import together
from regard.data.batches import AnyBatch, Feed, Images, Sounds
from regard.data.files import Told, read_folder, read_table
from regard.data.media_feeds import FilePictures, FileRecordings, Numbered
from regard.data.prefetch import Prefetch
from regard.data.text_lines import Report
from regard.errors import RegardError
from regard.runs.settings import ImageData, SoundData
from regard.runs.tasks.translation import SAMPLES, split_of

HELD = 1 << 30  # bytes of pictures or sound that are kept in memory; more are read as they are needed
Inputs = TypeVar("Inputs", bound=Numbered)


@dataclass(frozen=True, eq=False)
class Pool(Generic[Inputs]):
    """Inputs, the class or the text of each, and a name for each that decides whether it is held out."""

    inputs: Inputs
    told: Sequence[str]
    names: Sequence[str]

    def some(self, numbers: Sequence[int]) -> "Pool[Inputs]":
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
        """What is told, as numbers of classes."""
        known = {label: number for number, label in enumerate(labels)}
        unknown = next((each for each in self.told if each not in known), None)
        if unknown is not None:
            raise RegardError(
                f"the class {unknown!r} is not among those of training: {', '.join(labels[:20])}"
            )
        return [known[each] for each in self.told]


def read_told(data: ImageData | SoundData, path: str, usual: tuple[str, str], report: Report) -> list[Told]:
    """The files of a folder with one folder a class, or of a table, and what is told about each."""
    if not os.path.exists(path) and not has_magic(path):
        raise RegardError(f"{path}: no such file or folder")
    if os.path.isdir(path):
        return read_folder(path, policy=data.policy, report=report)
    return read_table(
        path, usual=usual, columns=data.columns, policy=data.policy, report=report, limit=data.longest
    )


def names_of(files: Sequence[Told], path: str) -> list[str]:
    """Names that stay the same wherever the folder or the table lies."""
    return [os.path.relpath(each.path, path) for each in files]


def completed(pools: dict[str, Pool[Inputs]], share: float) -> dict[str, Pool[Inputs]]:
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
