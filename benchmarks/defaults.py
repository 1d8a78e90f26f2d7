"""What planned trainings (`regard train NAME --data … --minutes …`, without any other setting) make of real data on this machine.

    python benchmarks/defaults.py --data DATA                       # every task, one after another: two hours
    python benchmarks/defaults.py --data DATA --only translate-4 --seeds 3
    python benchmarks/defaults.py --merge                           # the table again, from results/defaults.json

DATA holds `tatoeba-eng-fra/eng-fra.tsv.gz`, `tinyshakespeare/input.txt.gz` and `multi30k/`. Another seed draws other pairs,
other weights and another order. Nothing else should run beside it: a plan is made for the time that updates take. Results of
a task replace those of the same task and seed in defaults.json.
"""

import argparse
import gzip
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from measuring import machine
from torch.nn import functional as F

from regard.data.digits import digits

UNSEEN = 1000  # English sentences that no training pair has
RESULTS = Path(__file__).parent / "results" / "defaults.json"
REGARD = (sys.executable, "-m", "regard")


@dataclass(frozen=True)
class Goal:
    """A recipe, its minutes, the metric and what it should reach."""

    recipe: str
    minutes: float
    metric: str
    floor: float
    data: str  # in words
    make: Callable[
        [Path, Path, int], tuple[str, str]
    ]  # from DATA, a folder and a seed: what to train and evaluate on


@dataclass(frozen=True)
class Result:
    """One training."""

    goal: str
    seed: int
    command: str
    seconds: float
    load: float  # at the end
    value: float
    plan: str
    machine: dict[str, object]


def pairs(count: int | None) -> Callable[[Path, Path, int], tuple[str, str]]:
    """So many Tatoeba pairs, and unseen English sentences, each with the first of its translations."""

    def make(data: Path, folder: Path, seed: int) -> tuple[str, str]:
        by_english = defaultdict(list)
        with gzip.open(data / "tatoeba-eng-fra" / "eng-fra.tsv.gz", "rt", encoding="utf-8") as lines:
            for line in lines:
                english, french = line.rstrip("\n").split("\t")[:2]
                by_english[english].append(french)
        sentences = sorted(by_english)
        draw = random.Random(seed)
        draw.shuffle(sentences)
        test, rest = sentences[:UNSEEN], sentences[UNSEEN:]
        known = [(english, french) for english in rest for french in by_english[english]]
        draw.shuffle(known)
        _write(folder / "pairs.tsv", known[:count])
        _write(folder / "test.tsv", [(english, by_english[english][0]) for english in test])
        return "pairs.tsv", "test.tsv"

    return make


def shakespeare(data: Path, folder: Path, seed: int) -> tuple[str, str]:
    """The first nine tenths, and the last."""
    with gzip.open(data / "tinyshakespeare" / "input.txt.gz", "rt", encoding="utf-8") as file:
        text = file.read()
    cut = len(text) * 9 // 10
    (folder / "shakespeare.txt").write_text(text[:cut], "utf-8")
    (folder / "rest.txt").write_text(text[cut:], "utf-8")
    return "shakespeare.txt", "rest.txt"


def languages(data: Path, folder: Path, seed: int) -> tuple[str, str]:
    """Captions and their language: 8,000 of each to learn from, and those of the test set of 2016."""
    draw = random.Random(seed)
    for name, source, count in (("languages.tsv", "train", 8000), ("test.tsv", "test_2016_flickr", 1000)):
        rows = []
        for language in ("en", "de", "fr"):
            with gzip.open(data / "multi30k" / f"{source}.{language}.gz", "rt", encoding="utf-8") as lines:
                captions = [line.strip() for line in lines if line.strip()]
            rows += [(caption, language) for caption in draw.sample(captions, min(count, len(captions)))]
        draw.shuffle(rows)
        _write(folder / name, rows)
    return "languages.tsv", "test.tsv"


def pictures(data: Path, folder: Path, seed: int) -> tuple[str, str]:
    """60,000 and 10,000 grey pictures of 28 × 28: digits of the library, turned, sheared, moved and with noise. Those of the
    test are of digits that no other picture shows."""
    generator = torch.Generator().manual_seed(seed)
    pixels, labels = digits()
    pixels = pixels / pixels.max()
    order = torch.randperm(len(labels), generator=generator)
    test = order[: len(order) // 7]
    for name, some, count in (("train", order[len(test) :], 60_000), ("t10k", test, 10_000)):
        which = some[torch.randint(len(some), (count,), generator=generator)]
        angle = (torch.rand(count, generator=generator) - 0.5) * 0.7
        shear = (torch.rand(count, generator=generator) - 0.5) * 0.4
        moved = (torch.rand(count, 2, generator=generator) - 0.5) * 0.3
        turn = torch.stack(
            [angle.cos(), shear - angle.sin(), moved[:, 0], angle.sin(), angle.cos(), moved[:, 1]], 1
        )
        grid = F.affine_grid(turn.view(-1, 2, 3), [count, 1, 28, 28], align_corners=False)
        made = F.grid_sample(pixels[which].reshape(count, 1, 8, 8), grid, align_corners=False)[:, 0]
        made = (made + torch.randn(made.shape, generator=generator) * 0.05).clamp(0, 1)
        _write_idx(folder / f"{name}-images-idx3-ubyte.gz", (made * 255).round())
        _write_idx(folder / f"{name}-labels-idx1-ubyte.gz", labels[which])
    return ".", "."


def _write_idx(path: Path, numbers: torch.Tensor) -> None:
    """Bytes behind their sizes, as MNIST is given."""
    head = bytes([0, 0, 8, numbers.ndim]) + b"".join(size.to_bytes(4, "big") for size in numbers.shape)
    path.write_bytes(gzip.compress(head + numbers.to(torch.uint8).numpy().tobytes(), 1))


def _write(path: Path, rows: list[tuple[str, str]]) -> None:
    path.write_text("".join(f"{a}\t{b}\n" for a, b in rows), "utf-8")


GOALS = {
    "translate-10": Goal(
        "translate", 10, "BLEU", 27, "20,000 Tatoeba pairs, English to French", pairs(20_000)
    ),
    "translate-4": Goal("translate", 4, "BLEU", 17, "the same", pairs(20_000)),
    "translate-all": Goal(
        "translate", 30, "BLEU", 36, "all Tatoeba pairs but those of the test", pairs(None)
    ),
    "language": Goal("language", 5, "loss a character, at most", 1.75, "tiny Shakespeare", shakespeare),
    "classify": Goal("classify", 1, "% right", 99, "24,000 captions in three languages", languages),
    "images": Goal("images", 5, "% right", 98.5, "60,000 grey pictures of 28 × 28, made of digits", pictures),
}


def run(name: str, data: Path, seed: int) -> Result:
    """Train, evaluate, and say what came of it."""
    goal = GOALS[name]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        train, test = goal.make(data, folder, seed)
        words = [goal.recipe, "--data", train, "--minutes", f"{goal.minutes:g}", "--out", "run"]
        if seed > 1:
            words += ["--set", f"seed={seed}"]
        start = time.perf_counter()
        told = subprocess.run(
            [*REGARD, "train", *words],
            cwd=folder,
            check=True,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ).stdout
        seconds, load = time.perf_counter() - start, os.getloadavg()[0]
        where = [] if test == "." else ["--on", test]
        found = subprocess.run(
            [*REGARD, "evaluate", "run", *where, "--json"],
            cwd=folder,
            check=True,
            text=True,
            stdout=subprocess.PIPE,
        ).stdout
        value = _value(goal.recipe, {each["name"]: each["value"] for each in json.loads(found)})
    command = " ".join(["regard train", *words[: words.index("--out")]])
    return Result(name, seed, command, seconds, load, value, _plan_of(told), machine())


def _plan_of(told: str) -> str:
    return "\n".join(line.removeprefix("plan: ") for line in told.splitlines() if line.startswith("plan: "))


def _value(recipe: str, found: dict[str, float]) -> float:
    if recipe == "translate":
        return found["bleu"]
    if recipe == "language":
        return found["loss"]
    return 100 * found["accuracy"]


def table(results: list[Result]) -> str:
    """The runs, goal by goal, and the plans of the first seed."""
    lines = [
        "| command | data | minutes asked | seconds taken | load at the end | result | floor |",
        "|---|---|---:|---|---|---|---:|",
    ]
    for name, goal in GOALS.items():
        some = sorted((each for each in results if each.goal == name), key=lambda each: each.seed)
        if some:
            values = [each.value for each in some]
            middle = f", mean {statistics.mean(values):.4g}" if len(values) > 1 else ""
            lines.append(
                f"| `{some[0].command}` | {goal.data} | {goal.minutes:g} | {', '.join(f'{e.seconds:.0f}' for e in some)} | "
                f"{', '.join(f'{e.load:.1f}' for e in some)} | {', '.join(f'{v:.4g}' for v in values)}{middle} "
                f"({goal.metric}) | {goal.floor:g} |"
            )
    lines += ["", "## The plans of the first seed", ""]
    for name in GOALS:
        first = next((each for each in results if each.goal == name), None)
        if first is not None:
            lines += [f"{name}", "", "```text", first.plan, "```", ""]
    return "\n".join(lines)


def main() -> None:
    """Run, keep and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path)
    parser.add_argument("--only", nargs="*", default=list(GOALS), choices=list(GOALS))
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--merge", action="store_true")
    given = parser.parse_args()
    results = [Result(**each) for each in json.loads(RESULTS.read_text("utf-8"))] if RESULTS.exists() else []
    if not given.merge:
        for seed in range(given.first, given.first + given.seeds):
            for name in given.only:
                new = run(name, given.data, seed)
                print(
                    f"{name} seed {seed}: {new.value:.4g} after {new.seconds:.0f} s, load {new.load:.1f}",
                    flush=True,
                )
                results = [each for each in results if (each.goal, each.seed) != (name, seed)] + [new]
                RESULTS.write_text(
                    json.dumps([asdict(each) for each in results], indent=1, ensure_ascii=False) + "\n",
                    "utf-8",
                )
    print(table(results))


if __name__ == "__main__":
    main()
