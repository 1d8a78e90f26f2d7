"""Every hostile file of the tests, each in a process of its own: what came of it, in how many seconds and how much memory.

    python benchmarks/hostile.py --out benchmarks/results/hostile.json

A case that takes longer than `--seconds` is ended, and counts as one that hangs.
"""

import argparse
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from runs.hostile_cases import CASES  # type: ignore[import-not-found]
from runs.hostile_folders import outcome, valid_folder  # type: ignore[import-not-found]

MAX_ADDRESS_SPACE = 8 << 30  # bytes of address space, so that the machine survives


def measured(asked: str, folder: Path, seconds: float) -> tuple[str, float, float, float]:
    """What came of asking, in how many seconds and seconds of computing, and the largest memory in MB."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            resource.setrlimit(resource.RLIMIT_AS, (MAX_ADDRESS_SPACE, MAX_ADDRESS_SPACE))
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, seconds)
            warnings.simplefilter("ignore")
            os.write(writes, (outcome(asked, folder) if asked else "nothing").encode(errors="replace"))
        finally:
            os._exit(0)
    os.close(writes)
    began = time.monotonic()
    with os.fdopen(reads, "rb") as said:
        told = said.read().decode()
    _, status, used = os.wait4(child, 0)
    if os.WIFSIGNALED(status):
        told = "hangs" if os.WTERMSIG(status) == signal.SIGALRM else f"dies of signal {os.WTERMSIG(status)}"
    computed = used.ru_utime + used.ru_stime
    return told or "dies", time.monotonic() - began, computed, used.ru_maxrss / 1024


def kind_of(asked: str, told: str) -> str:
    """An outcome in a word."""
    if told.startswith("refused: ") or told in ("hangs", "answered"):
        return told.split(":")[0] if asked != "info" or told != "answered" else "refused"
    return "dies" if told.startswith("dies") else "traceback"


def main() -> None:
    """Measure all cases, print a summary and write the rest."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        valid_folder(place / "valid")
        for asked in ("load", "info", "recipe", "resume", "seen", "tokenizer", "sound", "lines"):
            outcome(asked, place / "valid")
        _, _, _, before = measured("", place, 10.0)
        for case in CASES:
            shutil.copytree(place / "valid", place / "case", symlinks=True)
            case.change(place / "case")
            told, seconds, computed, most = measured(case.asked, place / "case", options.seconds)
            shutil.rmtree(place / "case")
            rows.append(
                {
                    "case": case.name,
                    "asked": case.asked,
                    "came": kind_of(case.asked, told),
                    "seconds": round(seconds, 2),
                    "computing": round(computed, 2),
                    "more MB": round(max(0.0, most - before)),
                    "said": told.replace(str(place / "case"), "RUN")[:300],
                }
            )
    counts = Counter(row["came"] for row in rows)
    print(f"{len(rows)} cases (info: 'refused' means that it told what it could): {dict(counts)}")
    for what in ("seconds", "computing", "more MB"):
        worst = sorted(rows, key=lambda row: -row[what])[:3]
        print(f"most {what}: " + "; ".join(f"{row[what]} {row['case']}" for row in worst))
    for row in rows:
        if row["came"] != "refused":
            print(f"{row['came']}: {row['case']}: {row['said'][:120]}")
    if options.out is not None:
        options.out.write_text(
            json.dumps({"counts": counts, "cases": rows}, indent=1, ensure_ascii=False) + "\n"
        )


if __name__ == "__main__":
    main()
