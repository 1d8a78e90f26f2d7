"""What is left of a model of two senses when one is taken away from it at the test.

    python benchmarks/removing.py runs/same-digit-without-nothing-1 runs/same-digit-without-nothing-2 …
    python benchmarks/removing.py runs/spoken-place-sound-asks-text-1 …

The model was trained with both. A picture that is taken away is blank, a sound is silent and of one length for all, and a
text is empty; or its words stay, in an order that has nothing to do with the label.
"""

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from measuring import machine

from regard.data.text_lines import Report
from regard.decoding.decode import evaluating
from regard.runs.folder import RunFolder
from regard.runs.load import load
from regard.runs.settings import PlaceData, SameData
from regard.runs.tasks import digit_match
from regard.runs.tasks.prepared import likelihood


@dataclass(frozen=True)
class Removal:
    """What is taken away from the runs of a suite, as columns of a table; and what is said about it."""

    suite: str
    taken: dict[str, str]  # as `data.without` calls it → the head of the column
    about: str


REMOVALS: dict[type, Removal] = {
    SameData: Removal(
        "same-digit",
        {"nothing": "both senses", "image": "without the picture", "sound": "without the sound"},
        "Share of right answers to 2,000 test pairs, of digits and of a speaker that no training pair had. Chance is 50 %.",
    ),
    PlaceData: Removal(
        "spoken-place",
        {
            "nothing": "sound and text",
            "order": "the words shuffled",
            "text": "without the text",
            "sound": "without the sound",
        },
        "Share of right answers to 2,000 test pairs of a recording and four words, by a speaker whom no training pair had. "
        "Chance is 25 %.",
    ),
}


def removal_of(run: Path) -> Removal:
    """What can be taken away from a run."""
    data = RunFolder.existing(run).load_recipe().data
    if type(data) not in REMOVALS:
        raise TypeError(f"{run} is not of two senses")
    return REMOVALS[type(data)]


def accuracies(run: Path) -> dict[str, float]:
    """The share of right answers with both senses, and without each."""
    recipe, loaded = RunFolder.existing(run).load_recipe(), load(run, device="cpu", optimise=False)
    data: Any = recipe.data
    words = getattr(getattr(loaded, "reader", None), "second", None)
    found: dict[str, float] = {}
    for taken in removal_of(run).taken:
        changed = replace(recipe, data=replace(data, without=taken))
        feed = digit_match.feed_of(changed, "test", Report(), getattr(words, "tokenizer", None))
        with evaluating(loaded.model):
            metrics = {metric.name: metric.value for metric in likelihood(loaded.model, feed)}
        found[taken] = metrics["accuracy"]
    return found


def main() -> None:
    """Measure, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path, help="of one recipe")
    parser.add_argument("--out", type=Path, help="folder for SUITE-removed.json and .md")
    options = parser.parse_args()
    removal = removal_of(options.runs[0])
    rows = {run.name: accuracies(run) for run in options.runs}
    about = "; ".join(f"{name}: {value}" for name, value in machine().items())
    lines = [
        "# Two senses, and one taken away at the test",
        "",
        f"Made by `python benchmarks/removing.py` over the runs of `experiments.py {removal.suite}`. {about}.",
        "",
        removal.about,
        "",
        f"| run | {' | '.join(removal.taken.values())} |",
        "|---|" + "---:|" * len(removal.taken),
        *(
            f"| {name} | " + " | ".join(f"{row[taken]:.1%}" for taken in removal.taken) + " |"
            for name, row in rows.items()
        ),
        "| **mean** | "
        + " | ".join(f"{sum(row[taken] for row in rows.values()) / len(rows):.1%}" for taken in removal.taken)
        + " |",
    ]
    print("\n".join(lines))
    if options.out:
        (options.out / f"{removal.suite}-removed.md").write_text("\n".join(lines) + "\n")
        (options.out / f"{removal.suite}-removed.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
