"""What it costs to know where a model looks: watching and asking, against asking the model for its weights.

    python benchmarks/evidence.py            # 2k, 4k, 8k and 16k tokens, about 10 minutes on two cores
    python benchmarks/evidence.py --quick    # 1k and 2k

One layer of attention of width 512 with 8 heads, one sequence. regard: the forward as it is under `watch`, then
entropy, received mass and a 256 × 256 map of every head. The others: the forward that returns the weights, and
nothing more; or the same three computed from them. Each length runs in a process of its own with at most `--limit` GB, so that what does not fit says so.
"""

import argparse
import copy
import json
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from measuring import Run, machine, measure, peak_megabytes, spread
from torch import nn

from regard import watch

WIDTH, HEADS = 512, 8


def contenders(length: int) -> dict[str, Run]:
    """The runs, by name."""
    from transformers import BertConfig, BertModel

    # In training mode, where torch takes its fused kernel; without gradients it would hold the weights either way.
    attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).train()
    x = torch.randn(1, length, WIDTH)
    config = BertConfig(
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        num_hidden_layers=1,
        intermediate_size=WIDTH,
        max_position_embeddings=length,
        vocab_size=100,
    )
    bert, eager = (BertModel(copy.deepcopy(config)).eval() for _ in range(2))  # type: ignore[no-untyped-call]
    eager.set_attn_implementation("eager")
    tokens = torch.randint(0, 100, (1, length))

    def ask(model: nn.Module, run: Run) -> None:
        with watch(model) as seen:
            run()
        seen[0].ask("entropy", "received", ("map", 256, 256))

    def from_weights(weights: torch.Tensor) -> None:
        _ = -torch.special.xlogy(weights, weights).sum(-1), weights.sum(-2)
        _ = nn.functional.adaptive_avg_pool2d(weights, 256)

    def forward() -> object:
        return attention(x, x, x, need_weights=False)

    return {
        "nn.MultiheadAttention, no weights": forward,
        "nn.MultiheadAttention, watched and asked": lambda: ask(attention, forward),
        "nn.MultiheadAttention, need_weights": lambda: attention(x, x, x, average_attn_weights=False),
        "nn.MultiheadAttention, need_weights, the same from them": lambda: from_weights(
            attention(x, x, x, average_attn_weights=False)[1]
        ),
        "BERT, no weights": lambda: bert(tokens),
        "BERT, watched and asked": lambda: ask(bert, lambda: bert(tokens)),
        "BERT, output_attentions": lambda: eager(tokens, output_attentions=True),
        "BERT, output_attentions, the same from them": lambda: from_weights(
            eager(tokens, output_attentions=True).attentions[0]
        ),
    }


def one_length(length: int, rounds: int, limit: int) -> dict[str, Any]:
    """Everything at one length, in this process."""
    resource.setrlimit(resource.RLIMIT_AS, (limit << 30, limit << 30))
    runs = contenders(length)
    rows: dict[str, dict[str, Any]] = {}
    with torch.no_grad():
        for name in list(runs):
            try:
                rows[name] = {"megabytes": peak_megabytes(runs[name])}
            except (MemoryError, RuntimeError):
                rows[name] = {"megabytes": None}
                del runs[name]
        times = measure(runs, rounds)
    for name, taken in times.items():
        kind = name.split(",")[0]
        weights = "BERT, output_attentions" if kind == "BERT" else "nn.MultiheadAttention, need_weights"
        ratios = [mine / theirs for mine, theirs in zip(taken, times.get(weights, []), strict=False)]
        rows[name] |= {
            "milliseconds": statistics.median(taken),
            "spread": spread(taken),
            "ratio": statistics.median(ratios) if ratios else None,
            "ratio_spread": spread(ratios) if ratios else None,
        }
    return {"length": length, "rows": rows}


def table(results: list[dict[str, Any]], about: dict[str, object], limit: int) -> str:
    """The rows as Markdown."""
    lines = [
        "# What it costs to know where a model looks",
        "",
        "Made by `python benchmarks/evidence.py`. " + "; ".join(f"{k}: {v}" for k, v in about.items()) + ".",
        "",
        f"One layer, width {WIDTH}, {HEADS} heads, batch 1, float32, no gradients. *Watched and asked*: the forward "
        "under `watch`, then entropy, received mass and a 256 × 256 map of every head. *need_weights* and "
        "*output_attentions*: the forward that returns the weights, nothing computed from them, or the same three. × is the time over "
        "that of the form that returns the weights, median of interleaved rounds (tenth to ninetieth percentile). MB is "
        f"the peak held by tensors. A process may have {limit} GB.",
        "",
        "| tokens | what | ms | × | peak MB |",
        "|---:|---|---:|---:|---:|",
    ]
    for result in results:
        for name, row in result["rows"].items():
            if row["megabytes"] is None:
                lines.append(f"| {result['length']} | {name} | does not fit | | |")
                continue
            low, high = row["ratio_spread"] or (0, 0)
            ratio = f"{row['ratio']:.2f} ({low:.2f}–{high:.2f})" if row["ratio"] else ""
            lines.append(
                f"| {result['length']} | {name} | {row['milliseconds']:.0f} | {ratio} | {row['megabytes']:.0f} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="1k and 2k tokens")
    parser.add_argument("--limit", type=int, default=20, help="gigabytes a process may have")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results", help="folder for the results"
    )
    parser.add_argument("--length", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.manual_seed(0)
    if options.length:
        rounds = max(3, 2**14 // options.length) if options.length < 16384 else 1
        print(json.dumps(one_length(options.length, rounds, options.limit)))
        return
    about, results = machine(), []
    for length in (1024, 2048) if options.quick else (2048, 4096, 8192, 16384):
        command = [sys.executable, __file__, "--length", str(length), "--limit", str(options.limit)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ})
        results.append(json.loads(done.stdout.splitlines()[-1]))
        print(f"{length} tokens done", flush=True)
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "evidence.md").write_text(table(results, about, options.limit))
        (options.out / "evidence.json").write_text(
            json.dumps({"machine": about, "results": results}, indent=1)
        )
    print(table(results, about, options.limit))


if __name__ == "__main__":
    main()
