"""The experiments that the shipped recipes stand for: trained side by side, resumed if need be, and tabulated.

    python benchmarks/experiments.py numbers                       # made data; six scores, the bottleneck
    python benchmarks/experiments.py multi30k --data ~/data        # ~/data/multi30k; three seeds each
    python benchmarks/experiments.py tatoeba shakespeare fashion-mnist --data ~/data
    python benchmarks/experiments.py digits reader                 # the digits that come along; three seeds each
    python benchmarks/experiments.py spoken-digits same-digit --data ~/data   # every speaker left out once
    python benchmarks/experiments.py spoken-place --data ~/data    # a sound asks a text; three seeds
    python benchmarks/experiments.py multi30k --data ~/data --seconds 540   # stop there; say it again to go on

Every experiment is a `regard train` of its own, as many at a time as `--parallel` says. What was stopped is resumed,
what is finished is only read. Results go to `--out` as Markdown and JSON.
"""

import argparse
import json
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from measuring import machine

NUMBER = "two hundred and seventy-one million eighty thousand nine hundred and ninety-nine"
SUITES = (
    "numbers",
    "multi30k",
    "tatoeba",
    "shakespeare",
    "fashion-mnist",
    "digits",
    "reader",
    "spoken-digits",
    "same-digit",
    "spoken-place",
)
ACROSS = ("spoken-digits",)  # suites whose experiments are parts of one
SPEAKERS = ("george", "jackson", "lucas", "nicolas", "theo", "yweweler")
PICTURES = {"numbers": "numbers-alignments.png", "tatoeba": "tatoeba-alignment.png"}  # where they look
SCORES = ("dot", "scaled-dot", "cosine", "bilinear", "low-rank", "additive")
# As large as the Vision Transformer of the recipe, and held back by the same means.
CONVOLUTION = (
    "model={kind: convolution, widths: [32, 64, 96], strides: [2, 1, 2], units: 2, dropout: 0.0, "
    "stochastic_depth: 0.1, smoothing: 0.1}"
)


@dataclass(frozen=True)
class Experiment:
    """One recipe with some settings changed."""

    suite: str
    name: str
    recipe: str
    changes: tuple[str, ...] = ()
    seed: int = 1

    @property
    def label(self) -> str:
        """The folder of its run."""
        return f"{self.suite}-{self.name}-{self.seed}"


def experiments(data: Path) -> list[Experiment]:
    """All of them."""
    found = [Experiment("numbers", "transformer", "numbers")]
    found += [
        Experiment("numbers", score, "numbers-recurrent", (f"model.attention={score}",)) for score in SCORES
    ]
    # As wide as makes it as large as the others.
    found += [Experiment("numbers", "none", "numbers-recurrent", ("model.attention=none", "model.width=294"))]
    folder = f"data.folder={data / 'multi30k'}"
    names = ("en-de", "en-fr", "de-en", "de-en-recurrent", "en-de-cased")
    found += [
        Experiment("multi30k", name, f"multi30k-{name}", (folder,), seed)
        for name in names
        for seed in (1, 2, 3)
    ]
    found.append(
        Experiment("tatoeba", "en-fr", "tatoeba-en-fr", (f"data.folder={data / 'tatoeba-eng-fra'}",))
    )
    folder = f"data.folder={data / 'tinyshakespeare'}"
    found += [Experiment("shakespeare", "letters", "shakespeare", (folder,), seed) for seed in (1, 2, 3)]
    folder = f"data.folder={data / 'fashion-mnist'}"
    found += [
        Experiment("fashion-mnist", name, "fashion-mnist", (folder, *changes), seed)
        for name, changes in (("vision", ()), ("convolution", (CONVOLUTION,)))
        for seed in (1, 2, 3)
    ]
    convolution = "model={kind: convolution, preset: pico}"
    found += [
        Experiment("digits", name, "digits", changes, seed)
        for name, changes in (("vision", ()), ("convolution", (convolution,)))
        for seed in (1, 2, 3)
    ]
    found += [Experiment("reader", "captioner", "read-digits", (), seed) for seed in (1, 2, 3)]
    folder = f"data.folder={data / 'free-spoken-digits'}"
    found += [
        Experiment("spoken-digits", speaker, "spoken-digits", (folder, f"data.speaker={speaker}"), seed)
        for speaker in SPEAKERS
        for seed in (1, 2, 3)
    ]
    found += [
        Experiment("same-digit", f"without-{sense}", "same-digit", (folder, f"data.without={sense}"), seed)
        for sense in ("nothing", "image", "sound")
        for seed in (1, 2, 3)
    ]
    found += [
        Experiment("spoken-place", "sound-asks-text", "spoken-place", (folder,), seed) for seed in (1, 2, 3)
    ]
    return found


def start(experiment: Experiment, runs: Path, device: str | None, threads: int) -> "subprocess.Popen[bytes]":
    """Begin, or go on."""
    run = runs / experiment.label
    if (run / "recipe.yaml").exists():
        verb = ["resume", str(run)]
    else:
        changes = [*experiment.changes, f"seed={experiment.seed}"]
        sets = [part for change in changes for part in ("--set", change)]
        verb = ["train", experiment.recipe, *sets, "--out", str(run)]
    chosen = ["--device", device] if device else []
    said = (runs / f"{experiment.label}.txt").open("ab")
    command = [sys.executable, "-m", "regard", *verb, *chosen, "--threads", str(threads)]
    return subprocess.Popen(command, stdout=said, stderr=said)


def train_all(
    wanted: list[Experiment], runs: Path, *, parallel: int, threads: int, seconds: float, device: str | None
) -> None:
    """Run everything that is not finished; ask what is under way at the end to save and stop."""
    runs.mkdir(parents=True, exist_ok=True)
    waiting = [each for each in wanted if not (runs / each.label / "metrics.json").exists()]
    under_way: dict[str, subprocess.Popen[bytes]] = {}
    deadline = time.monotonic() + seconds
    while (waiting or under_way) and time.monotonic() < deadline:
        while waiting and len(under_way) < parallel:
            each = waiting.pop(0)
            under_way[each.label] = start(each, runs, device, threads)
        for label, process in list(under_way.items()):
            if process.poll() is not None:
                print(f"{label}: exit {process.returncode}", flush=True)
                del under_way[label]
        time.sleep(0.5)
    for process in under_way.values():
        process.send_signal(signal.SIGTERM)
    for label, process in under_way.items():
        print(f"{label}: stopped with {process.wait(timeout=120)}", flush=True)


def collected(wanted: list[Experiment], runs: Path) -> list[dict[str, object]]:
    """What the finished runs came to."""
    rows: list[dict[str, object]] = []
    for each in wanted:
        run = runs / each.label
        if not (run / "metrics.json").exists():
            continue
        card = (run / "README.md").read_text("utf-8")
        facts = dict(
            line[2:].split(": ", 1) for line in card.splitlines() if line.startswith("- ") and ": " in line
        )
        metrics = json.loads((run / "metrics.json").read_text("utf-8"))
        last = [json.loads(line) for line in (run / "log.jsonl").read_text("utf-8").splitlines()]
        rows.append(
            {
                "suite": each.suite,
                "name": each.name,
                "seed": each.seed,
                "recipe": each.recipe,
                "changes": [change for change in each.changes if not change.startswith("data.folder")],
                "parameters": facts.get("parameters"),
                "updates": facts.get("updates"),
                "weights": facts.get("weights"),
                "seconds": round(last[-1]["seconds"]),
                "metrics": {metric["name"]: metric["value"] for metric in metrics},
                "signatures": {
                    metric["name"]: metric["signature"] for metric in metrics if metric["signature"]
                },
            }
        )
    return rows


def table(suite: str, rows: list[dict[str, object]], about: dict[str, object]) -> str:
    """Markdown: one line a run, and the mean over seeds where there are several."""
    names = list(rows[0]["metrics"])  # type: ignore[call-overload]
    lines = [
        f"# Experiments: {suite}",
        "",
        f"Made by `python benchmarks/experiments.py {suite}`. "
        + "; ".join(f"{k}: {v}" for k, v in about.items())
        + ". "
        "Seconds are wall-clock beside the other experiments on the same machine.",
        "",
        "| experiment | recipe | parameters | updates | seconds | seed | " + " | ".join(names) + " |",
        "|---|---|---:|---:|---:|---:|" + "---:|" * len(names),
    ]
    for row in rows:
        changes = "".join(f" `{change}`" for change in row["changes"])  # type: ignore[attr-defined]
        cells = [_shown(name, row["metrics"][name]) for name in names]  # type: ignore[index]
        lines.append(
            f"| {row['name']} | {row['recipe']}{changes} | {row['parameters']} | {row['updates']} | {row['seconds']} | "
            f"{row['seed']} | " + " | ".join(cells) + " |"
        )
    every = {
        name: [row for row in rows if row["name"] == name]
        for name in dict.fromkeys(row["name"] for row in rows)
    }
    if suite in ACROSS:
        every["all"] = rows
    for name, same in every.items():
        if len(same) > 1:
            means = [statistics.mean(row["metrics"][metric] for row in same) for metric in names]  # type: ignore[index]
            cells = [_shown(metric, mean) for metric, mean in zip(names, means, strict=True)]
            lines.append(f"| **{name}, mean of {len(same)}** | | | | | | " + " | ".join(cells) + " |")
    signatures = {f"{m}: `{s}`" for row in rows for m, s in row["signatures"].items()}  # type: ignore[attr-defined]
    picture = [f"![Where they look]({PICTURES[suite]})", ""] if suite in PICTURES else []
    return "\n".join([*lines, "", *picture, *(f"- {each}" for each in sorted(signatures))]) + "\n"


def _shown(name: str, value: float) -> str:
    return (
        f"{100 * value:.2f} %"
        if name in ("exact", "accuracy", "wer", "cer")
        else f"{value:.2f}"
        if value > 10
        else f"{value:.4f}"
    )


def draw_alignments(runs: Path, out: Path) -> None:
    """Where the recurrent translator looks under each of the six scores, for one number, side by side."""
    from regard.runs.load import load
    from regard.sight.pictures.heatmap import sheet
    from regard.sight.translation_picture import picture_of

    trained = [score for score in SCORES if (runs / f"numbers-{score}-1" / "metrics.json").exists()]
    pictures = [
        picture_of(load(runs / f"numbers-{score}-1", device="cpu"), NUMBER, title=score) for score in trained
    ]
    if pictures:
        rows = [pictures[:3], pictures[3:]] if len(pictures) > 3 else [pictures]
        sheet(rows).png(out / PICTURES["numbers"])


def draw_sentence(runs: Path, out: Path) -> None:
    """Where the translator of Tatoeba looks for each word of a short sentence."""
    from regard.runs.load import load
    from regard.sight.translation_picture import picture_of

    run = runs / "tatoeba-en-fr-1"
    if (run / "metrics.json").exists():
        picture_of(load(run, device="cpu"), "Hello, I love you.").png(out / PICTURES["tatoeba"])


def main() -> None:
    """Train, collect, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suites", nargs="+", choices=SUITES)
    parser.add_argument(
        "--data", type=Path, default=Path("data"), help="folder with multi30k/, tatoeba-eng-fra/ …"
    )
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder for the runs")
    parser.add_argument("--parallel", type=int, default=1, help="experiments at a time")
    parser.add_argument("--threads", type=int, default=1, help="of each of them")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop and save after this long")
    parser.add_argument("--device", help="cpu or cuda")
    parser.add_argument("--only", default="", help="those whose name holds this")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results", help="folder for the results"
    )
    options = parser.parse_args()
    every = [each for each in experiments(options.data) if options.only in each.label]
    wanted = [each for suite in options.suites for each in every if each.suite == suite]
    how = {"parallel": options.parallel, "threads": options.threads}
    train_all(wanted, options.runs, **how, seconds=options.seconds, device=options.device)
    options.out.mkdir(parents=True, exist_ok=True)
    for suite in options.suites:
        rows = collected([each for each in wanted if each.suite == suite], options.runs)
        if rows:
            about = {**machine(), "at a time": options.parallel, "threads of each": options.threads}
            (options.out / f"{suite}.json").write_text(
                json.dumps({"machine": about, "rows": rows}, indent=1) + "\n"
            )
            (options.out / f"{suite}.md").write_text(table(suite, rows, about))
            print((options.out / f"{suite}.md").read_text())
    if "numbers" in options.suites:
        draw_alignments(options.runs, options.out)
    if "tatoeba" in options.suites:
        draw_sentence(options.runs, options.out)


if __name__ == "__main__":
    main()
