"""Every score against the written-out form and against torch's own attention, side by side in one run.

    python benchmarks/attention.py                 # the whole table, about 10 minutes on two cores
    python benchmarks/attention.py --quick         # up to 1024 positions, few repeats
    python benchmarks/attention.py --out results   # where the .md, .json and .png go

Times are medians over interleaved rounds: in every round each contender runs once, in a shuffled order, and the
ratio to torch is taken within the round, so that a busy neighbour slows both. Memory is the peak of what tensors
held during one run beyond its inputs, counted from the allocator's own events, not sampled.
"""

import argparse
import json
import random
import statistics
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
from measuring import machine, measure, peak_megabytes, spread
from torch import Tensor

from regard.bench.attention import (
    BATCH,
    FITS,
    HEADS,
    HIDDEN,
    WIDTH,
    Mixed,
    contenders,
    masked_contenders,
    run_once,
    scores,
)

ROUNDS = {128: 30, 256: 20, 512: 12, 1024: 6, 2048: 3, 4096: 3}  # by length


@dataclass(frozen=True)
class Row:
    """One contender at one length."""

    score: str
    length: int
    mode: str
    contender: str
    milliseconds: float
    spread: tuple[float, float]  # tenth and ninetieth percentile
    ratio: float  # to torch, within each round; median
    ratio_spread: tuple[float, float]
    megabytes: float


def rows_of(name: str, length: int, runs: dict[str, Mixed], inputs: list[Tensor], rounds: int) -> list[Row]:
    """Both modes of every contender, as rows."""
    rows = []
    for mode in ("forward", "forward + backward"):
        timed = {name: partial(run_once, run, inputs, mode != "forward") for name, run in runs.items()}
        times = measure(timed, rounds)
        for contender, run in timed.items():
            ratios = [mine / other for mine, other in zip(times[contender], times["torch"], strict=True)]
            rows.append(
                Row(
                    name,
                    length,
                    mode,
                    contender,
                    statistics.median(times[contender]),
                    spread(times[contender]),
                    statistics.median(ratios),
                    spread(ratios),
                    peak_megabytes(run),
                )
            )
    return rows


def table(rows: list[Row], machine: dict[str, object]) -> str:
    """The rows as Markdown, one line a score, length and mode."""
    lines = [
        "# Attention on the CPU: regard, written out, torch",
        "",
        "Made by `python benchmarks/attention.py`. "
        + "; ".join(f"{name}: {value}" for name, value in machine.items())
        + ".",
        "",
        f"Shapes: batch {BATCH} × {HEADS} heads × length × {WIDTH}, float32; additive 1 × 1 × length × {WIDTH} with "
        f"{HIDDEN} hidden units. `×` is the median, within interleaved rounds, of the time over that of torch's "
        "`scaled_dot_product_attention` on the same shapes (tenth to ninetieth percentile). MB is the peak held by "
        "tensors beyond the inputs. `by hand` is the same score typed around torch's attention: cosine, bilinear and "
        "low-rank do arithmetic that the bare kernel does not, which shows at short lengths. `padded causal` is `causal() & lengths(n)` against torch's bare `is_causal`, "
        "which does not protect against what is in the padding. An empty cell under `written` would have held more "
        f"than {FITS >> 30} GB.",
        "",
        "| score | length | mode | regard ms | written ms | torch ms | regard × | by hand × | written × "
        "| regard MB | written MB | torch MB |",
        "|---|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    cells = {(row.score, row.length, row.mode, row.contender): row for row in rows}
    for score, length, mode in dict.fromkeys((row.score, row.length, row.mode) for row in rows):
        ours, plain, theirs, typed = (
            cells.get((score, length, mode, who)) for who in ("regard", "written out", "torch", "by hand")
        )
        parts = [score, str(length), mode]
        parts += ["" if row is None else f"{row.milliseconds:.2f}" for row in (ours, plain, theirs)]
        parts += [_ratio(row) for row in (ours, typed, plain)]
        parts += ["" if row is None else f"{row.megabytes:.1f}" for row in (ours, plain, theirs)]
        lines.append("| " + " | ".join(parts) + " |")
    return "\n".join(lines) + "\n"


def _ratio(row: Row | None) -> str:
    if row is None:
        return ""
    return f"{row.ratio:.2f} ({row.ratio_spread[0]:.2f}–{row.ratio_spread[1]:.2f})"


def draw(rows: list[Row], path: Path) -> None:
    """Time and memory over length, a panel a score."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    names = list(dict.fromkeys(row.score for row in rows))
    figure, axes = plt.subplots(2, len(names), figsize=(3 * len(names), 6), sharex=True, squeeze=False)
    colours = {"regard": "#0072B2", "written out": "#D55E00", "torch": "#666666"}
    for column, name in enumerate(names):
        for contender, colour in colours.items():
            mine = [
                r for r in rows if (r.score, r.contender, r.mode) == (name, contender, "forward + backward")
            ]
            lengths_ = [row.length for row in mine]
            style = "--" if contender == "torch" else "-"
            axes[0, column].plot(
                lengths_, [row.milliseconds for row in mine], style, color=colour, marker="o", ms=3
            )
            axes[1, column].plot(
                lengths_,
                [row.megabytes for row in mine],
                style,
                color=colour,
                marker="o",
                ms=3,
                label=contender,
            )
        axes[0, column].set(title=name, xscale="log", yscale="log")
        axes[1, column].set(xlabel="length", xscale="log", yscale="log")
    axes[0, 0].set_ylabel("ms, forward + backward")
    axes[1, 0].set_ylabel("peak MB")
    axes[1, -1].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="up to 1024 positions, few repeats")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results", help="folder for the results"
    )
    options = parser.parse_args()
    torch.manual_seed(0)
    random.seed(0)
    about, rows = machine(), []
    options.out.mkdir(parents=True, exist_ok=True)
    for length, rounds in ROUNDS.items():
        if options.quick and length > 1024:
            break
        for name, score in scores().items():
            runs, inputs, _ = contenders(score, length)
            rows += rows_of(name, length, runs, inputs, max(3, rounds // (3 if options.quick else 1)))
        runs, inputs, _ = masked_contenders(length)
        rows += rows_of("padded causal", length, runs, inputs, rounds)
        (options.out / "attention.md").write_text(table(rows, about))
        (options.out / "attention.json").write_text(
            json.dumps({"machine": about, "rows": [asdict(row) for row in rows]}, indent=1)
        )
        print(f"length {length} done", flush=True)
    draw(rows, options.out / "attention.png")
    print(table(rows, about))


if __name__ == "__main__":
    main()
