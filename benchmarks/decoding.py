"""Decoding on the CPU against CTranslate2 and Hugging Face's Marian, on one set of weights, side by side in one run.

    python benchmarks/decoding.py                    # all contenders that are installed
    python benchmarks/decoding.py --quick            # few rounds, nothing written
    python benchmarks/decoding.py --out results      # where decoding.json and decoding.md go
    python benchmarks/decoding.py --device cuda --batch 64   # on a GPU, in half precision: decoding-cuda.json and .md

The model is a base Transformer (6 + 6 blocks, 512, 8 heads, 2,048) with norm="after", which all three can express, a
vocabulary of 10,000 and drawn weights. The row of END in the output matrix is 0, so that no text ends before its
limit and every contender makes the same number of steps. Every contender has a process of its own; in a round each
runs once, in a shuffled order, while the others sleep, and ratios are taken within the round. Memory is how far the peak of the resident set rose above its level before the
run.
"""

import argparse
import json
import random
import shlex
import statistics
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from measuring import machine, spread

from regard.bench.decoding import OURS, WORDS, Texts, Worker, contenders, lively_base, sources
from regard.bench.peers import missing


@dataclass(frozen=True)
class Row:
    """One contender at one task."""

    task: str
    contender: str
    tokens_per_second: float
    spread: tuple[float, float]  # tenth and ninetieth percentile
    ratios: dict[
        str, tuple[float, float, float]
    ]  # regard over it: by our precision; median, tenth, ninetieth
    megabytes: float
    equal: float  # share of texts equal to those of regard in float32


def task(
    name: str,
    everyone: dict[str, Worker],
    texts: Texts,
    *,
    size: int,
    alone: bool,
    steps: int,
    rounds: int,
    calmly: bool,
) -> list[Row]:
    """One task for everybody: all texts at once, or one after the other."""
    given = (texts, size, steps, alone, calmly)
    outputs = {who: worker.ask("texts", *given) for who, worker in everyone.items()}
    for who, found in outputs.items():
        if {len(text) for text in found} != {steps}:
            raise SystemExit(f"{who} did not make {steps} steps: the comparison would not be one")
    times: dict[str, list[float]] = {who: [] for who in everyone}
    for _ in range(rounds):
        for who in random.sample(list(everyone), len(everyone)):
            times[who].append(everyone[who].ask("time", *given))
    count = len(texts) * steps
    rows = []
    ours = [who for who in everyone if who.split()[0] == "regard"]
    for who in everyone:
        speeds = [count / milliseconds * 1e3 for milliseconds in times[who]]
        ratios = {}
        for mine in ours:
            within = [theirs / own for theirs, own in zip(times[who], times[mine], strict=True)]
            ratios[mine] = (statistics.median(within), *spread(within))
        same = sum(a == b for a, b in zip(outputs[who], outputs[ours[0]], strict=True))
        rows.append(
            Row(
                name,
                who,
                statistics.median(speeds),
                spread(speeds),
                ratios,
                everyone[who].ask("rise", *given),
                same / len(texts),
            )
        )
        print(f"{name:28s} {who:22s} {rows[-1].tokens_per_second:8.0f} tokens/s  equal {rows[-1].equal:.2f}  "
              + "  ".join(f"{mine} {ratio[0]:.2f}x" for mine, ratio in ratios.items()), flush=True)  # fmt: skip
    return rows


def table(rows: list[Row], facts: dict[str, object], given: argparse.Namespace) -> str:
    """The rows as Markdown."""
    ours, steps, on_cpu = list(rows[0].ratios), given.steps, given.device == "cpu"
    peers = "on the CPU: regard, CTranslate2" if on_cpu else "on a GPU: regard"
    held = "rise of the resident set during a run" if on_cpu else "most that tensors held on the GPU"
    lines = [
        f"# Decoding {peers}, Hugging Face Marian",
        "",
        f"Made by `python benchmarks/decoding.py {_asked()}`; each contender in a process of its own. "
        + "; ".join(f"{name}: {value}" for name, value in facts.items())
        + ".",
        "",
        "A base Transformer (6 + 6 blocks, width 512, 8 heads, inner 2,048, norm after) with a vocabulary of "
        f"{WORDS:,}, drawn weights, the same for all; {given.batch} sources of 7 to 24 tokens, of which two for "
        f"`alone`; {steps} steps for every text. "
        "`regard … ×` is the speed of regard over that of the contender, the median of ratios within interleaved "
        "rounds (tenth to ninetieth percentile). `equal` is the share of texts that are token for token those of "
        f"{ours[0]}; drawn weights decide by thin margins, so that rounding alone can part texts. MB is the {held}."
        + ("" if on_cpu else " `stepwise` is regard without recording: its ordinary loop."),
        "",
        "| task | contender | tokens/s | spread | "
        + " | ".join(f"{mine} ×" for mine in ours)
        + " | equal | MB |",
        "|---|---|---:|---:|" + "---:|" * len(ours) + "---:|---:|",
    ]
    for row in rows:
        ratios = " | ".join(f"{m:.2f} ({low:.2f}–{high:.2f})" for m, low, high in row.ratios.values())
        lines.append(
            f"| {row.task} | {row.contender} | {row.tokens_per_second:.0f} | {row.spread[0]:.0f}–{row.spread[1]:.0f} "
            f"| {ratios} | {row.equal:.2f} | {row.megabytes:.0f} |"
        )
    return "\n".join(lines) + "\n"


def _asked() -> str:
    """The command, but for the folder of the results."""
    words = sys.argv[1:]
    if "--out" in words:
        place = words.index("--out")
        words = words[:place] + words[place + 2 :]
    return shlex.join(words)


def main() -> None:
    """Measure and write down."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="three rounds, nothing written")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu", help="cpu, or cuda")
    parser.add_argument("--precisions", nargs="*", help="default float32 bf16 int8; on a GPU fp16")
    parser.add_argument(
        "--calmly", action="store_true", help="only rounds in which others leave the cores alone"
    )
    parser.add_argument("--only", help="contenders whose names hold this, besides our own")
    parser.add_argument("--tasks", default="greedy,beam 4,greedy alone,beam 4 alone")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    facts = machine()
    texts = sources(given.batch)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        precisions = given.precisions or (["float32", "bf16", "int8"] if given.device == "cpu" else ["fp16"])
        names = contenders(lively_base(), Path(folder), precisions, given.device, every=True)
        print(missing() or "every peer is installed")
        everyone = {who: Worker(who, Path(folder), given.threads, given.device) for who in names}
        if given.only is not None:
            everyone = {
                who: run for who, run in everyone.items() if given.only in who or who.split()[0] in OURS
            }
        for name in given.tasks.split(","):
            alone, size = name.endswith("alone"), 4 if name.startswith("beam") else 1
            rows += task(
                name,
                everyone,
                texts[:2] if alone else texts,
                size=size,
                alone=alone,
                steps=given.steps,
                rounds=3 if given.quick else given.rounds,
                calmly=given.calmly,
            )
            if not given.quick:
                write(rows, facts, given)


def write(rows: list[Row], facts: dict[str, object], given: argparse.Namespace) -> None:
    """The rows so far as JSON and Markdown."""
    given.out.mkdir(exist_ok=True)
    settings = {name: value for name, value in vars(given).items() if name != "out"}
    record = {"machine": facts, "settings": settings, "rows": [asdict(row) for row in rows]}
    stem = "decoding" if given.device == "cpu" else f"decoding-{given.device}"
    (given.out / f"{stem}.json").write_text(json.dumps(record, indent=1) + "\n")
    (given.out / f"{stem}.md").write_text(table(rows, facts, given))


if __name__ == "__main__":
    main()
