"""A whole `regard train`, from the start of its process to the scores of the test set, by the clock.

    python benchmarks/whole_run.py multi30k-en-de --folder data/multi30k --device cuda \\
        --set training.packing=true --set training.cuda_graphs=auto --out benchmarks/results/multi30k-h200

Where the time went is read from the log of the run. With `--run` and `--seconds` a run that has ended is written down.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from measuring import machine


def main() -> None:
    """Train, and write down what it took and what it scored."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recipe")
    parser.add_argument("--folder", default="data/multi30k", help="the data")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--set", action="append", default=[], dest="changes")
    parser.add_argument("--run", type=Path, help="of a run that has ended")
    parser.add_argument("--seconds", type=float, help="that it took")
    parser.add_argument("--machine", type=json.loads, help="it was made on, as JSON")
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    about, seconds, run = chosen.machine or machine(), chosen.seconds, chosen.run
    options = [option for change in chosen.changes for option in ("--set", change)]
    if run is None:
        run = Path(tempfile.mkdtemp()) / "run"
        command = [
            sys.executable,
            "-m",
            "regard",
            "train",
            chosen.recipe,
            "--device",
            chosen.device,
            *options,
        ]
        began = time.perf_counter()
        done = subprocess.run(
            [*command, "--set", f"data.folder={chosen.folder}", "--out", str(run)],
            check=False,
            stdout=sys.stderr,
        )
        if done.returncode:  # regard has said why
            sys.exit(done.returncode)
        seconds = time.perf_counter() - began
    found = {"machine": about, "recipe": chosen.recipe, "changes": chosen.changes, **taken(run, seconds)}
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")
    chosen.out.with_suffix(".md").write_text(table(found))
    print(table(found))


def taken(run: Path, seconds: float) -> dict[str, Any]:
    """Seconds of the parts of a run, and its scores."""
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    updates = [entry for entry in log if entry["event"] == "update"]
    ends = [entry["seconds"] for entry in updates]
    steps = [b - a for a, b in pairwise(ends)]
    usual = statistics.median(steps)
    trained = log[-1]["seconds"]
    return {
        "seconds": {
            "whole": round(seconds, 1),
            "before the first update": round(ends[0], 1),
            "updates": round(usual * len(updates), 1),
            "around them: recording, evaluating, saving": round(trained - ends[0] - usual * len(updates), 1),
            "starting, and translating the test set": round(seconds - trained, 1),
        },
        "updates": len(updates),
        "milliseconds of an update": round(1e3 * usual, 2),
        "target tokens": sum(entry["tokens"] for entry in updates),
        "scores": json.loads((run / "metrics.json").read_text()),
    }


def table(found: dict[str, Any]) -> str:
    """The figures as Markdown."""
    changes = "".join(f" --set {change}" for change in found["changes"])
    scores = ", ".join(f"{each['name']} {each['value']:.4g}" for each in found["scores"])
    signatures = "; ".join(
        f"{each['name']}: `{each['signature']}`" for each in found["scores"] if each["signature"]
    )
    lines = [
        f"# A whole run: {found['recipe']}",
        "",
        f"Made by `python benchmarks/whole_run.py {found['recipe']}{changes}`. "
        f"{'; '.join(f'{name}: {value}' for name, value in found['machine'].items())}.",
        "",
        f"{found['updates']:,} updates of {found['milliseconds of an update']} ms in the middle, {found['target tokens']:,} "
        f"target tokens. On the test set: {scores} ({signatures}).",
        "",
        "| | seconds |",
        "|---|---:|",
        *(f"| {name} | {value} |" for name, value in found["seconds"].items()),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
