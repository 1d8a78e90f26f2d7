"""Runs small enough to be trained in a test: a few updates, so they know next to nothing, but are whole."""

from pathlib import Path

from regard.runs.finding import resolve
from regard.runs.recipe import Recipe
from regard.training.experiment import begin
from regard.training.log import Log

TRAINING = {"steps": 4, "batch": 256, "evaluate": 2, "save": 2, "warmup": 1}
MODEL = {"width": 16, "heads": 2, "depth": 1, "inner": 16}


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
