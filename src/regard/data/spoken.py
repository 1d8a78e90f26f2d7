"""Spoken digits: recordings named {digit}_{speaker}_{number}.wav, in a zip file or a folder.

So the free spoken digits come (Jackson 2018, github.com/Jakobovski/free-spoken-digit-dataset, CC BY-SA 4.0): six
speakers, each digit fifty times, at 8 kHz. They are found as a zip or a folder of recordings, in the folder that the
repository unpacks to, and in a zip of the whole repository.
"""

import os
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from regard.data.audio import judge_wav
from regard.data.file_access import check_growth, opened
from regard.data.files import MAX_BYTES, bytes_of
from regard.data.text_lines import Flaw, Policy, Report, dealing
from regard.errors import RegardError

_NAME = re.compile(r"([0-9])_([A-Za-z][A-Za-z-]*)_([0-9]{1,6})\.wav")
_FOLDER, _ZIP, _REPOSITORY = "recordings", "recordings.zip", "free-spoken-digit-dataset"
_MOST = 64 << 20  # bytes of one recording, unpacked: a zip file may promise little and unpack to much


@dataclass(frozen=True, eq=False, kw_only=True)
class SpokenDigit:
    """A recording of a digit."""

    samples: Float[Tensor, " n"]
    rate: int
    digit: int
    speaker: str
    index: int  # which of the times this speaker said it


def read_spoken_digits(
    place: str, *, policy: Policy = "error", report: Report | None = None
) -> list[SpokenDigit]:
    """All recordings, sorted by digit, speaker and number: the same order from a zip file and from a folder."""
    dealt = dealing("recording", policy, report)
    found = []
    for name, data in _folder(place) if os.path.isdir(place) else _zip(place):
        named = _NAME.fullmatch(os.path.basename(name))
        if named is None:
            flaw = Flaw("name", "not named {digit}_{speaker}_{number}.wav")
            dealt.drop(f"{place}/{name}", 0, flaw)
            continue
        recording = data if isinstance(data, Flaw) else judge_wav(data)
        if isinstance(recording, Flaw):
            dealt.drop(f"{place}/{name}", 0, recording)
            continue
        digit, speaker, index = int(named[1]), named[2], int(named[3])
        found.append(
            SpokenDigit(
                samples=recording.samples, rate=recording.rate, digit=digit, speaker=speaker, index=index
            )
        )
    if not found:
        raise RegardError(f"{place}: no recordings in it")
    return sorted(found, key=lambda each: (each.digit, each.speaker, each.index))


def recordings_place(place: str) -> str:
    """Where the recordings are: in this zip or folder, or in what the data set ships instead of it.

    A folder without recordings, and a missing `recordings.zip` or `recordings`, stand for the folder they are in: there,
    and one level below, `recordings/`, `recordings.zip`, the repository as a zip, or the recordings themselves.
    """
    if os.path.isfile(place) or (os.path.isdir(place) and _holds_recordings(place)):
        return place
    if os.path.isdir(place):
        start = place
    elif os.path.basename(place) in (_ZIP, _FOLDER):
        start = os.path.dirname(place) or "."
    else:
        return place
    if not os.path.isdir(start):
        return place
    below = sorted(each.path for each in os.scandir(start) if each.is_dir() and not each.name.startswith("."))
    for folder in (start, *below):
        zips = sorted(
            name for name in os.listdir(folder) if name.startswith(_REPOSITORY) and name.endswith(".zip")
        )
        for name in (_ZIP, _FOLDER, *zips, ""):
            found = os.path.join(folder, name) if name else folder
            if os.path.isfile(found) or _holds_recordings(found):
                return found
    raise RegardError(
        f"{start}: no {_ZIP} and no folder {_FOLDER} in it; fetch github.com/Jakobovski/{_REPOSITORY}, or give data.folder"
    )


def _holds_recordings(folder: str) -> bool:
    return os.path.isdir(folder) and any(_NAME.fullmatch(name) for name in os.listdir(folder))


def speakers_of(recordings: Sequence[SpokenDigit]) -> list[str]:
    """Who speaks, in alphabetical order."""
    return sorted({each.speaker for each in recordings})


def by_speaker(recordings: Sequence[SpokenDigit], *, test: str) -> tuple[list[int], list[int]]:
    """Numbers of the recordings to learn from and to be tested on: one speaker is not in the training set."""
    if test not in speakers_of(recordings):
        raise RegardError(f"test={test!r}: the speakers are {', '.join(speakers_of(recordings))}")
    held_out = [each.speaker == test for each in recordings]
    return (
        [number for number, held in enumerate(held_out) if not held],
        [number for number, held in enumerate(held_out) if held],
    )


def _folder(folder: str) -> Iterator[tuple[str, bytes | Flaw]]:
    for name in sorted(os.listdir(folder)):
        if not name.startswith("."):
            yield name, bytes_of(os.path.join(folder, name))


def _zip(path: str) -> Iterator[tuple[str, bytes | Flaw]]:
    if not os.path.lexists(path):
        raise RegardError(f"{path}: no such file or folder")
    try:
        with opened(path, most=MAX_BYTES) as raw, zipfile.ZipFile(raw) as file:
            size, unpacked = os.path.getsize(path), 0
            entries = [entry for entry in file.infolist() if not entry.is_dir()]
            # Of a whole repository, the folder of recordings and nothing beside it.
            inner = [each for each in entries if os.path.basename(os.path.dirname(each.filename)) == _FOLDER]
            for entry in inner or entries:
                if not os.path.basename(entry.filename).startswith("."):
                    data = _entry(file, entry)
                    unpacked += 0 if isinstance(data, Flaw) else len(data)
                    check_growth(path, size, unpacked)
                    yield entry.filename, data
    except (zipfile.BadZipFile, OSError) as error:
        raise RegardError(f"{path}: cannot be read as a zip file ({error})") from None


def _entry(file: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes | Flaw:
    try:
        with file.open(entry) as opened:
            data = opened.read(_MOST + 1)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
        return Flaw("broken", f"cannot be unpacked ({error})")
    return Flaw("too large", f"more than {_MOST >> 20} MiB") if len(data) > _MOST else data
