"""Which models are watched, whether that changed a bit of their answer, and how far evidence is from float64.

python benchmarks/watching.py      # a minute; writes results/watching.md
"""

import sys
from dataclasses import replace
from pathlib import Path

import torch
from measuring import machine
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from sight.peers import every_peer, results  # type: ignore[import-not-found]

from regard import Call, Layer, watch, weigh


def in_float64(call: Call) -> Tensor:
    """The weights of a call, written out in float64."""
    bias = call.bias
    if isinstance(bias, nn.Module):
        bias = bias.double()
    score = call.score.double()
    wide = replace(call, query=call.query.double(), key=call.key.double(), bias=bias, score=score)
    return weigh(wide).detach()


def error(layer: Layer) -> float:
    """The largest error of entropy, received mass, largest weight and a pooled map."""
    entropy, received, peak, cells = layer.entropy(), layer.received(), layer.peak()[1], layer.map(3, 3)
    weights = in_float64(layer.intact())
    queries, keys = weights.shape[-2:]
    rows = (
        torch.arange(queries) * cells.shape[-2] // queries == torch.arange(cells.shape[-2])[:, None]
    ).double()
    columns = (
        torch.arange(keys) * cells.shape[-1] // keys == torch.arange(cells.shape[-1])[:, None]
    ).double()
    expected = (rows / rows.sum(1, keepdim=True)) @ weights @ columns.T
    gaps = [
        entropy + torch.special.xlogy(weights, weights).sum(-1),
        received - weights.sum(-2),
        peak - weights.amax(-1),
        cells - expected,
    ]
    return max(gap.abs().max().item() for gap in gaps)


def main() -> None:
    """Run every peer, print and write the table."""
    lines = [
        "# Which models are watched",
        "",
        "Made by `python benchmarks/watching.py`, over the models of `tests/sight/peers.py`. "
        + "; ".join(f"{name}: {value}" for name, value in machine().items())
        + ".",
        "",
        "*Bits equal*: outputs (and gradients, where the path has them) with and without watching. *Error*: the largest "
        "difference of entropy, received mass, largest weight and a pooled map from what the weights in float64 give.",
        "",
        "| model | calls seen | of | bits equal | error against float64 |",
        "|---|---:|---:|---|---:|",
    ]
    for name, make in every_peer().items():
        torch.manual_seed(0)
        peer = make()
        plain = results(peer)
        with watch(peer.model) as seen:
            watched = results(peer)
        equal = all(torch.equal(a, b) for a, b in zip(plain, watched, strict=True))
        said = ("outputs and gradients" if peer.gradients else "outputs") if equal else "NO"
        worst = max(error(layer) for layer in seen)
        lines.append(f"| {name} | {len(seen)} | {peer.calls} | {said} | {worst:.1e} |")
    text = "\n".join(lines) + "\n"
    (Path(__file__).parent / "results" / "watching.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
