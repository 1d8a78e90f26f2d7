"""What is left of a model of two senses when one is taken away from it: measured on runs of `regard train same-digit`.

    python benchmarks/removing.py runs/same-digit-without-nothing-1 runs/same-digit-without-nothing-2 …

The model was trained with both; at the test a picture becomes blank, or a sound silent and of one length for all.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Literal

from measuring import machine

from regard.data.text_lines import Report
from regard.decoding.decode import evaluating
from regard.runs.folder import RunFolder
from regard.runs.load import load
from regard.runs.settings import SameData
from regard.runs.tasks import digit_match
from regard.runs.tasks.prepared import likelihood

TAKEN: tuple[Literal["nothing", "image", "sound"], ...] = ("nothing", "image", "sound")


def accuracies(run: Path) -> dict[str, float]:
    """The share of right answers with both senses, and without each."""
    recipe, model = RunFolder.existing(run).load_recipe(), load(run, device="cpu", optimise=False).model
    if not isinstance(recipe.data, SameData):
        raise TypeError(f"{run} is not of two senses")
    found: dict[str, float] = {}
    for taken in TAKEN:
        feed = digit_match.feed_of(
            replace(recipe, data=replace(recipe.data, without=taken)), "test", Report()
        )
        with evaluating(model):
            metrics = {metric.name: metric.value for metric in likelihood(model, feed)}
        found[taken] = metrics["accuracy"]
    return found


def main() -> None:
    """Measure, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, help="folder for same-digit-removed.json and .md")
    options = parser.parse_args()
    rows = {run.name: accuracies(run) for run in options.runs}
    about = "; ".join(f"{name}: {value}" for name, value in machine().items())
    lines = [
        "# Two senses, and one taken away at the test",
        "",
        f"Made by `python benchmarks/removing.py` over the runs of `experiments.py same-digit`. {about}.",
        "",
        "Share of right answers to 2,000 test pairs, of digits and of a speaker that no training pair had. Chance is 50 %.",
        "",
        "| run | both senses | without the picture | without the sound |",
        "|---|---:|---:|---:|",
        *(
            f"| {name} | " + " | ".join(f"{row[taken]:.1%}" for taken in TAKEN) + " |"
            for name, row in rows.items()
        ),
        "| **mean** | "
        + " | ".join(f"{sum(row[taken] for row in rows.values()) / len(rows):.1%}" for taken in TAKEN)
        + " |",
    ]
    print("\n".join(lines))
    if options.out:
        (options.out / "same-digit-removed.md").write_text("\n".join(lines) + "\n")
        (options.out / "same-digit-removed.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
