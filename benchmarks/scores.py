"""One Transformer, six scores: numbers in English words to French, at one budget.

    OMP_NUM_THREADS=1 python benchmarks/scores.py         # about three minutes of one core, more beside other work

The six differ in `model.score` alone: sizes, batches, updates and seeds are the same. All are tested on the same numbers, which
no training contains.
"""

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any, get_args

from measuring import machine

from regard.attention.scores import ScoreName
from regard.data.numbers import draw_numbers, english, french
from regard.runs.folder import RunFolder
from regard.runs.load import load
from regard.runs.recipe import find
from regard.training.experiment import begin
from regard.training.observers import Log

LARGEST = 999_999
SETTINGS = [
    f"data.largest={LARGEST}",
    "data.train=20000",
    "data.test=50",
    "model.width=48",
    "model.heads=4",
    "model.depth=1",
    "model.decoder_depth=1",
    "model.hidden_width=96",
    "training.steps=350",
    "training.batch=1024",
    "training.learning_rate=4e-3",
    "training.warmup=50",
    "training.evaluate=350",
    "training.save=350",
    "training.decode=0",
]
SEEDS = (1, 2)


def train(score: str, seed: int, runs: Path) -> tuple[Path, float]:
    """The run of a score, and the CPU seconds of its training; it is not trained again."""
    folder = runs / f"scores-{score}-{seed}"
    spent = folder / "cpu-seconds.json"
    if not spent.exists():
        start = time.process_time()
        chosen = find("numbers", [*SETTINGS, f"model.score={score}", f"seed={seed}"])
        begin(chosen, folder, overwrite=True, observers=lambda run: [Log(run.log)])
        spent.write_text(json.dumps(time.process_time() - start))
    return folder, float(json.loads(spent.read_text()))


def measured(score: str, numbers: list[int], runs: Path) -> dict[str, Any]:
    """Parameters, and of each seed: CPU seconds and the share of numbers translated exactly."""
    row: dict[str, Any] = {"exact": [], "seconds": []}
    for seed in SEEDS:
        folder, seconds = train(score, seed, runs)
        answers = load(folder).translate([english(number) for number in numbers])
        right = sum(answer == french(number) for answer, number in zip(answers, numbers, strict=True))
        row["exact"].append(round(right / len(numbers), 4))
        row["seconds"].append(round(seconds, 1))
        row["parameters"] = sum(weight.numel() for weight in RunFolder(folder).load_weights().values())
    return row


def main() -> None:
    """Train, ask, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder for the runs")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results", help="folder for the results"
    )
    options = parser.parse_args()
    numbers, rows, about = draw_numbers(500, seed=7, part="test", largest=LARGEST), {}, machine()
    for score in get_args(ScoreName):
        rows[score] = measured(score, numbers, options.runs)
        print(score, rows[score], flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    lines = [
        "# Six scores in one Transformer",
        "",
        "Made by `python benchmarks/scores.py`. "
        + "; ".join(f"{name}: {value}" for name, value in about.items())
        + ".",
        "",
        f"Numbers to {LARGEST:,} in English words to French, {len(numbers)} that no training saw; the recipe `numbers` with "
        + ", ".join(f"`{setting}`" for setting in SETTINGS)
        + f", and `model.score` as in the first column. Seeds {' and '.join(map(str, SEEDS))}; the seconds are CPU seconds "
        "of a training, the mean of both.",
        "",
        "| `model.score` | parameters | CPU seconds | "
        + " | ".join(f"exact, seed {seed}" for seed in SEEDS)
        + " |",
        "|---|---:|---:|" + "---:|" * len(SEEDS),
    ]
    for score, row in rows.items():
        cells = [f"{row['parameters']:,}", f"{statistics.mean(row['seconds']):.0f}"]
        cells += [f"{100 * share:.1f} %" for share in row["exact"]]
        lines.append(f"| `{score}` | " + " | ".join(cells) + " |")
    lines += [
        "",
        "The budget is small on purpose: none of the six has learnt all it can. Seeds differ by up to "
        f"{100 * max(max(row['exact']) - min(row['exact']) for row in rows.values()):.0f} points, so smaller differences "
        "between scores say nothing.",
    ]
    (options.out / "scores.md").write_text("\n".join(lines) + "\n")
    written = {"machine": about, "settings": SETTINGS, "seeds": SEEDS, "rows": rows}
    (options.out / "scores.json").write_text(json.dumps(written, indent=1) + "\n")


if __name__ == "__main__":
    main()
