"""Runs small enough to be trained in a test: a few updates, so they know next to nothing, but are whole."""

from pathlib import Path

from regard.data.audio import Recording, tone, wav_of
from regard.runs.recipe import Recipe, resolve
from regard.training.experiment import begin
from regard.training.observers import Log

TRAINING = {"steps": 4, "batch": 256, "evaluate": 2, "save": 2, "warmup": 1}
MODEL = {"width": 16, "heads": 2, "depth": 1, "hidden_width": 16}


def numbers(**changes: object) -> Recipe:
    """A translator of small numbers."""
    values = {
        "data": {"kind": "numbers", "largest": 99, "train": 60, "valid": 5, "test": 5},
        "tokens": {"size": 280},
        "model": {"kind": "transformer", "decoder_depth": 1, **MODEL},
        "training": TRAINING,
    }
    return resolve({**values, **changes})


def language(text: Path, **changes: object) -> Recipe:
    """A language model of a text file."""
    values = {
        "data": {"kind": "text", "train": str(text), "context": 16},
        "tokens": {"kind": "character"},
        "model": {"kind": "language", **MODEL},
        "training": TRAINING,
        "decoding": {"tokens": 8},
    }
    return resolve({**values, **changes})


def classification(table: Path, **changes: object) -> Recipe:
    """A classifier of the texts of a table."""
    values = {
        "data": {"kind": "labelled", "train": str(table), "held_out": 0.2},
        "tokens": {"kind": "character"},
        "model": {"kind": "classifier", **MODEL},
        "training": TRAINING,
    }
    return resolve({**values, **changes})


def counter(**changes: object) -> Recipe:
    """A counter of 4s and 2s."""
    values = {
        "data": {"kind": "counting", "train": 500, "valid": 100, "test": 100},
        "model": {"kind": "counter"},
        "training": TRAINING,
    }
    return resolve({**values, **changes})


def trained(recipe: Recipe, folder: Path) -> Path:
    """The folder of a run."""
    return begin(recipe, folder, device="cpu", observers=lambda run: [Log(run.log)]).run.path


def write_text(folder: Path) -> Path:
    """Some lines to model."""
    path = folder / "text.txt"
    path.write_text("\n".join(f"line {i} of the text" for i in range(60)), "utf-8")
    return path


def write_table(folder: Path) -> Path:
    """Texts with two labels."""
    path = folder / "table.tsv"
    rows = [
        f"{'aeiou' * (i % 3 + 1)}{i}\tvowels\n{'bcdfg' * (i % 3 + 1)}{i}\tconsonants\n" for i in range(40)
    ]
    path.write_text("".join(rows), "utf-8")
    return path


def reader(**changes: object) -> Recipe:
    """A captioner that reads strips of digits."""
    values = {
        "data": {"kind": "strips", "train": 64, "valid": 8, "test": 8},
        "tokens": {"size": 400},
        "model": {"kind": "captioner", "decoder_depth": 1, "patch": [4, 4], **MODEL},
        "training": {**TRAINING, "batch": 16},
        "decoding": {"tokens": 6},
    }
    return resolve({**values, **changes})


def hearing(place: Path, **changes: object) -> Recipe:
    """A classifier of spoken digits."""
    values = {
        "data": {"kind": "spoken-digits", "train": str(place), "speaker": "bo"},
        "model": {"kind": "hearing", "bands": 8, **MODEL},
        "training": {**TRAINING, "batch": 16},
    }
    return resolve({**values, **changes})


def write_spoken(folder: Path) -> Path:
    """Recordings of two speakers, each digit ten times: tones that say which digit it is."""
    place = folder / "spoken"
    place.mkdir()
    for speaker, base in (("al", 300.0), ("bo", 320.0)):
        for digit in range(10):
            for index in range(10):
                samples = tone(base + 150 * digit, seconds=0.05 + 0.002 * index, rate=8000)
                (place / f"{digit}_{speaker}_{index}.wav").write_bytes(wav_of(Recording(samples, 8000)))
    return place
