"""What attention is for, drawn: exact translations of numbers against their length, at equal parameters.

    python benchmarks/bottleneck.py            # about 8 minutes on two cores

A recurrent translator without attention has to carry a whole number through one vector; with attention, and as a
Transformer, it can look back. All three have the same number of parameters, see the same batches, and are asked the
same unseen numbers.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from measuring import machine

from regard.data.numbers import draw_numbers, english, french
from regard.runs.folder import RunFolder
from regard.runs.load import load
from regard.runs.recipe import find
from regard.sight.pictures.chart import Chart, Series
from regard.training.experiment import begin
from regard.training.observers import Log, Progress

TRAINING = [
    "training.steps=2000",
    "training.batch=2048",
    "training.evaluate=500",
    "training.decode=0",
    "training.learning_rate=3e-3",
    "training.schedule=cosine",
    "training.warmup=100",
    "data.train=60000",
    "data.test=50",
]
CONTENDERS = {
    "recurrent, no attention": ("numbers-recurrent", ["model.attention=none", "model.width=92", "model.embedding_width=32"]),
    "recurrent, attention": ("numbers-recurrent", ["model.attention=additive", "model.width=80", "model.embedding_width=32"]),
    "Transformer": ("numbers", ["model.width=60", "model.heads=4", "model.depth=1", "model.decoder_depth=1", "model.hidden_width=180"]),
}  # fmt: skip


def train(name: str, runs: Path) -> Path:
    """Train a contender, unless it was."""
    recipe, changes = CONTENDERS[name]
    folder = runs / ("bottleneck-" + name.replace(", ", "-").replace(" ", "-").lower())
    if not RunFolder(folder).metrics.exists():
        chosen = find(recipe, [*TRAINING, *changes])
        begin(chosen, folder, overwrite=True, observers=lambda run: [Log(run.log), Progress()])
    return folder


def by_digits(folder: Path, numbers: list[int]) -> dict[int, tuple[int, int]]:
    """Exact translations and numbers asked, by the number of digits."""
    answers = load(folder).translate([english(number) for number in numbers])
    found: dict[int, tuple[int, int]] = {}
    for number, answer in zip(numbers, answers, strict=True):
        digits = len(str(number))
        right, asked = found.get(digits, (0, 0))
        found[digits] = (right + (answer == french(number)), asked + 1)
    return dict(sorted(found.items()))


def main() -> None:
    """Train, ask, draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder for the runs")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results", help="folder for the results"
    )
    options = parser.parse_args()
    numbers = draw_numbers(3000, seed=7, part="test")
    rows: dict[str, Any] = {}
    about = machine()
    for name in CONTENDERS:
        folder = train(name, options.runs)
        size = sum(weight.numel() for weight in RunFolder(folder).load_weights().values())
        rows[name] = {"parameters": size, "digits": by_digits(folder, numbers)}
        print(name, rows[name], flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    chart = Chart(
        title="The bottleneck",
        x="digits of the number",
        y="translated exactly",
        percent=True,
        series=[
            Series(
                name=name,
                points=[(digits, right / asked) for digits, (right, asked) in row["digits"].items()],
            )
            for name, row in rows.items()
        ],
    )
    chart.png(options.out / "bottleneck.png")
    chart.svg(options.out / "bottleneck.svg")
    columns = range(1, 10)
    lines = [
        "# The bottleneck",
        "",
        "Made by `python benchmarks/bottleneck.py`. "
        + "; ".join(f"{k}: {v}" for k, v in about.items())
        + ".",
        "",
        "![Exact match against length](bottleneck.png)",
        "",
        f"Numbers in English words to French, never seen in training; {TRAINING[0].split('=')[1]} updates of 2,048 tokens each, "
        "the same batches for all. In the cells: translated exactly, in per cent, by the number of digits.",
        "",
        "| | parameters | " + " | ".join(map(str, columns)) + " |",
        "|---|---:|" + "---:|" * 9,
    ]
    for name, row in rows.items():
        digits: dict[int, tuple[int, int]] = row["digits"]
        cells = [f"{100 * digits[d][0] / digits[d][1]:.0f}" if d in digits else "" for d in columns]
        lines.append(f"| {name} | {row['parameters']:,} | " + " | ".join(cells) + " |")
    asked = [str(digits[d][1]) if d in digits else "" for d in columns]
    lines.append("| numbers asked | | " + " | ".join(asked) + " |")
    (options.out / "bottleneck.md").write_text("\n".join(lines) + "\n")
    (options.out / "bottleneck.json").write_text(
        json.dumps({"machine": about, "rows": rows}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
