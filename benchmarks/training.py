"""Training beside torch.nn.Transformer: real tokens a second, in one run, every contender on the same data.

    python benchmarks/training.py --data data/multi30k                    # two cores, about two minutes
    python benchmarks/training.py --data data/multi30k --device cuda --sizes base big --tokens 16384 32768 --peers bucketed

All train a Transformer of one size on Multi30k English → German with one vocabulary of 10,000: dropout, label smoothing,
clipping and AdamW included. torch.nn.Transformer gets padded batches, random ones and ones of like lengths, in each
precision; regard gets random sentences, packed. A round is one update of each, in a shuffled order. What counts is
real tokens of both sides, so filling counts as nothing. The batches of torch.nn.Transformer are made beforehand; ours
are made while it trains, as always.
"""

import argparse
import gc
import json
import os
import random
import shlex
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring import machine, peak_megabytes, spread

from regard.bench.measuring import wait
from regard.bench.training import Peer, Update, our_updates, peer_updates
from regard.data.feeds import Corpus, PairFeed, tokenize_pairs
from regard.data.records import read_pairs
from regard.data.text_lines import Parallel
from regard.data.tokenizer import Tokenizer
from regard.models import transformer
from regard.models.transformer import TransformerConfig
from regard.runs.settings import Training

PEAK = 990e12  # dense bfloat16 operations a second of an H100 or H200
AHEAD = 64  # batches of torch.nn.Transformer
WARM = 24  # updates of each before anything is timed on a GPU, where its batches are as few
BEGAN = time.perf_counter()


def data_of(folder: Path, size: int, kept: Path | None = None) -> PairFeed:
    """The training pairs of Multi30k, lower-cased and tokenised, one vocabulary for both sides; read only once if kept."""
    if kept is not None and kept.exists():
        with np.load(kept) as held:
            return PairFeed(*(Corpus(held[f"{n}"], held[f"{n} ends"]) for n in "ab"), budget=1, seed=0)
    names = Parallel(*(str(folder / f"train.lc.norm.tok.{side}.gz") for side in ("en", "de")))
    pairs = list(read_pairs(names))
    tokenizer = Tokenizer.train((side for pair in pairs for side in pair), kind="bpe", size=size, least=1)
    sides = dict(zip("ab", tokenize_pairs(pairs, tokenizer, tokenizer), strict=True))
    if kept is not None:
        ends = {f"{name} ends": side.starts + side.lengths for name, side in sides.items()}
        np.savez(kept, **{name: side.tokens for name, side in sides.items()}, **ends)  # type: ignore[arg-type]
    return PairFeed(*sides.values(), budget=1, seed=0)


def in_random_order(count: int, rows: int, seed: int) -> Iterator[list[int]]:
    """Rows drawn without regard to their length."""
    numbers = np.random.default_rng(seed)
    while True:
        order = numbers.permutation(count).tolist()
        for start in range(0, count - rows + 1, rows):
            yield order[start : start + rows]


def in_buckets(feed: PairFeed, budget: int, seed: int) -> Iterator[list[int]]:
    """Rows of like lengths, as many as a budget of tokens allows on the longer side, filling included."""
    buckets = PairFeed(feed.sources, feed.targets, budget=budget, seed=seed)
    epoch = 0
    while True:
        yield from (list(samples) for samples in buckets.order(epoch))
        epoch += 1


def as_packed(feed: PairFeed, budget: int, seed: int) -> Iterator[list[int]]:
    """Rows as they are drawn, until one side has as many tokens as the budget allows; what is left over is left out."""
    drawn = PairFeed(feed.sources, feed.targets, budget=budget, seed=seed, packed=True)
    epoch = 0
    while True:
        yield from (list(samples) for samples in drawn.order(epoch)[:-1])
        epoch += 1


def operations(config: TransformerConfig, feed: PairFeed) -> float:
    """Floating-point operations of training, for each real token of either side: 6 for every weight that multiplies
    it, and 12 × width for every pair of a query and a key, the scores and the mixture, forward and twice backward.
    """
    width, inner, depth = config.width, config.hidden_width, config.depth
    source, target = feed.sources.lengths + 1, feed.targets.lengths + 1
    read = depth * (4 * width**2 + 2 * width * inner) + config.decoder_depth * 2 * width**2
    written = config.decoder_depth * (6 * width**2 + 2 * width * inner) + width * config.target_vocabulary
    pairs = depth * source**2 + config.decoder_depth * (target * (target + 1) / 2 + source * target)
    total = 6 * (read * source.sum() + written * target.sum()) + 12 * width * pairs.sum()
    return float(total / (source.sum() + target.sum()))


def warmed(contenders: dict[str, Update], device: str) -> dict[str, float]:
    """Let everyone begin; the megabytes that each took, above what there was.

    On a GPU from the first update on, optimiser included: later, a CUDA graph asks the allocator for nothing. There
    every batch of torch.nn.Transformer is trained on once, so that memory for each of its shapes has been found, and
    ours until all is captured that will be.
    """
    peaks = {}
    for name, update in contenders.items():
        if device == "cuda":
            peaks[name] = peak_megabytes(lambda update=update: [update() for _ in range(WARM)], device)  # type: ignore[misc]
        else:
            update()
        say(f"{name} has begun")
    return peaks


def rates(contenders: dict[str, Update], rounds: int, each: int, device: str) -> dict[str, list[float]]:
    """Real tokens a second of every contender in every round, which is `each` updates; interleaved."""
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds):
        for name in random.sample(list(contenders), len(contenders)):
            wait(device)
            start = time.perf_counter()
            tokens = sum(contenders[name]() for _ in range(each))
            wait(device)
            found[name].append(tokens / (time.perf_counter() - start))
        say(
            f"round {number + 1}: " + ", ".join(f"{name} {values[-1]:,.0f}" for name, values in found.items())
        )
    return found


def say(line: str) -> None:
    """How far it has come."""
    print(f"{time.perf_counter() - BEGAN:6.1f} s  {line}", file=sys.stderr, flush=True)


def main() -> None:
    """Measure, and write down what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data/multi30k"))
    parser.add_argument("--kept", type=Path, help="a file for the tokens, to be made if it is not there")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--sizes", nargs="+", default=["base"], choices=["tiny", "base", "big"])
    parser.add_argument(
        "--tokens", type=int, nargs="*", default=[], help="of both sides in a batch, on a GPU"
    )
    parser.add_argument("--precisions", nargs="+", default=["bfloat16"], help="of torch.nn.Transformer")
    parser.add_argument(
        "--peers", nargs="+", default=["random", "bucketed"], help="batches of torch.nn.Transformer"
    )
    parser.add_argument(
        "--ways", nargs="+", default=["auto", "compiled"], help="cuda_graphs of ours, on a GPU"
    )
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--each", type=int, help="updates in a round")
    parser.add_argument("--seconds", type=float, default=1e9, help="no new contest is begun after these")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/training"))
    chosen = parser.parse_args()
    feed = data_of(chosen.data, 10_000, chosen.kept)
    about, tables = machine(), []
    for size in chosen.sizes:
        config = replace(
            getattr(transformer, size)(),
            tied="all",
            dropout=0.1,
            source_vocabulary=10_000,
            target_vocabulary=10_000,
        )
        for tokens in chosen.tokens or [0]:
            if time.perf_counter() - BEGAN > chosen.seconds:
                continue
            say(f"{size}, {tokens or 'few'} tokens")
            tables.append({"size": size, **contest(config, feed, tokens, chosen)})
            write(chosen.out, about, tables)
            torch.compiler.reset()  # or the next would be compiled for sizes that vary
            gc.collect()
    print(chosen.out.with_suffix(".md").read_text())


def contest(
    config: TransformerConfig, feed: PairFeed, tokens: int, chosen: argparse.Namespace
) -> dict[str, Any]:
    """All contenders at one size of batch; 0 tokens: 64 sentences."""
    device, count = chosen.device, len(feed.sources)
    mean = float((feed.sources.lengths + feed.targets.lengths).mean() + 2)
    rows = round(tokens / mean) if tokens else 64
    budget = round(rows * mean / 2)
    peers = {"random": in_random_order(count, rows, 1), "bucketed": in_buckets(feed, budget, 2)}
    contenders: dict[str, Update] = {}
    for dtype in (getattr(torch, name) for name in chosen.precisions):
        for name in chosen.peers:
            ahead = WARM if device == "cuda" else AHEAD
            batches = cycle([feed.batch(samples) for samples in islice(peers[name], ahead)])
            contenders[f"torch, {name}, {_name(dtype)}"] = peer_updates(Peer(config), batches, dtype, device)
    settings = Training(batch=budget, precision="bfloat16")
    if device == "cpu":
        contenders["regard"] = our_updates(config, feed, in_random_order(count, rows, 3), settings, device)
    else:
        for way in chosen.ways:
            order, how = as_packed(feed, budget, 3), replace(settings, cuda_graphs=way)
            contenders[f"regard, {way}"] = our_updates(config, feed, order, how, device)
    each = chosen.each or (1 if device == "cpu" else 10)
    peaks = warmed(contenders, device)
    found = rates(contenders, chosen.rounds, each, device)
    peaks = peaks or {name: peak_megabytes(update, device) for name, update in contenders.items()}
    return {
        "sentences": rows,
        "updates a round": each,
        "load at end": round(os.getloadavg()[0], 2),
        "operations a token": operations(config, feed),
        "rates": {name: [round(rate) for rate in values] for name, values in found.items()},
        "megabytes": {name: round(peak) for name, peak in peaks.items()},
    }


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def write(out: Path, about: dict[str, Any], tables: list[dict[str, Any]]) -> None:
    """The figures as JSON, and as a table."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.with_suffix(".json").write_text(json.dumps({"machine": about, "contests": tables}, indent=1) + "\n")
    lines = ["# Training beside torch.nn.Transformer", ""]
    lines += [
        f"Made by `{shlex.join(['python', *sys.argv])}`. {'; '.join(f'{k}: {v}' for k, v in about.items())}.",
        "",
    ]
    for table in tables:
        medians = {name: statistics.median(values) for name, values in table["rates"].items()}
        ours = max((name for name in medians if name.startswith("regard")), key=medians.__getitem__)
        lines += [f"## {table['size']}, {table['sentences']:,} sentences a batch", ""]
        lines += [f"| contender | real tokens/s | 1st to 9th decile | {ours} is | utilisation | peak MB |"]
        lines += ["|---|---:|---:|---:|---:|---:|"]
        for name, values in table["rates"].items():
            middle, (low, high) = medians[name], spread(values)
            used = f"{middle * table['operations a token'] / PEAK:.1%}" if "gpu" in about else ""
            lines.append(
                f"| {name} | {middle:,.0f} | {low:,.0f} – {high:,.0f} | {medians[ours] / middle:.2f}× | {used} | "
                f"{table['megabytes'][name]:,} |"
            )
        lines.append("")
    out.with_suffix(".md").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
