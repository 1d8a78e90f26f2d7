"""Recordings and what is told about each: spoken digits, or the user's own."""

import os
from typing import Literal

from regard.data.audio import read_sounds, resample, usable_sounds
from regard.data.media_feeds import FileRecordings, HeldRecordings, Recordings
from regard.data.numbers import english
from regard.data.spoken import by_speaker, read_spoken_digits
from regard.data.text_lines import Report
from regard.runs.settings import SoundData, SpokenData
from regard.runs.tasks.pools import HELD, Pool, completed, names_of, read_told
from regard.runs.tasks.prepared import located

TENTH = 10  # every tenth recording of the speakers that are trained on is for validation


def pools_of(
    data: SoundData | SpokenData, report: Report, *, rate: int, told: Literal["label", "text"] = "label"
) -> dict[str, Pool[Recordings]]:
    """The recordings of each split at the rate of the model, with their classes or what is said in them."""
    if isinstance(data, SpokenData):
        return _spoken(data, report, rate, told)
    own = {"train": data.train, "valid": data.valid, "test": data.test}
    places = dict.fromkeys(place for place in own.values() if place is not None)
    read = {place: _read(data, place, rate, told, report) for place in places}
    pools = {split: read[place] for split, place in own.items() if place is not None}
    return completed(pools, data.held_out)


def _read(data: SoundData, place: str, rate: int, told: str, report: Report) -> Pool[Recordings]:
    path = located(data.folder, place)
    files = read_told(data, path, ("file", told), report)
    # As numbers of four bytes, at another rate perhaps, a recording takes a few times the room of its file.
    if 4 * sum(os.path.getsize(each.path) for each in files if os.path.isfile(each.path)) <= HELD:
        sounds, kept = read_sounds(files, rate, policy=data.policy, report=report)
        recordings: Recordings = HeldRecordings(sounds)
    else:
        kept = usable_sounds(files, policy=data.policy, report=report)
        recordings = FileRecordings(kept, rate=rate)
    return Pool(recordings, [each.text for each in kept], names_of(kept, path))


def _spoken(data: SpokenData, report: Report, rate: int, told: str) -> dict[str, Pool[Recordings]]:
    """Digits as classes, "7", or in words, "seven". One speaker is held out, and some recordings of the others."""
    every = read_spoken_digits(located(data.folder, data.train), report=report)
    learned, test = by_speaker(every, test=data.speaker)
    valid = learned[::TENTH]
    held: Recordings = HeldRecordings([resample(each.samples, each.rate, to=rate) for each in every])
    texts = [english(each.digit) if told == "text" else str(each.digit) for each in every]
    pool = Pool(held, texts, [""] * len(texts))
    chosen = {"train": sorted({*learned} - {*valid}), "valid": valid, "test": test}
    return {split: pool.some(numbers) for split, numbers in chosen.items()}
