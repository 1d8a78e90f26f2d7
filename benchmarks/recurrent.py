"""Training the recurrent translator with attention against the loop over steps that one would write by hand.

    python benchmarks/recurrent.py                  # two cores, about two minutes
    python benchmarks/recurrent.py --device cuda    # seconds on a GPU

The *output context* wiring with the additive score. Both have the same weights and the same equation; the loops ask
their source once a step, ours all at once, behind a recurrence that torch runs over the whole target. Losses and
gradients are compared before anything is timed. An update is forward, backward, clipping and AdamW, in float32 and
under bfloat16 autocast. On a GPU, ours is also measured as `training.cuda_graphs: auto` trains it: the batch is filled
up to a round shape and sent over, the update launched as a CUDA graph, and its loss read by the host.
"""

import argparse
import copy
import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from measuring import machine, measure, spread
from torch import Tensor, nn
from torch.nn import functional as F

from regard.attention.scores import Additive
from regard.data.batches import Pairs, Sequences
from regard.models.recurrent import RecurrentConfig, RecurrentTranslator
from regard.runs.settings import Training
from regard.training.distribution import BatchPlace, World
from regard.training.shapes import rounded
from regard.training.state import TrainingState
from regard.training.update import Updater

Loss = Callable[[RecurrentTranslator, Pairs], Tensor]
VOCABULARY = 10_000


def ours(model: RecurrentTranslator, batch: Pairs) -> Tensor:
    """As the library trains it."""
    loss = model.loss(batch)
    return loss.total / loss.count


def filled_up(model: RecurrentTranslator, batch: Pairs) -> Tensor:
    """As the library captures it."""
    return ours(model, Pairs(*rounded(batch.source, batch.target)))


def by_steps(model: RecurrentTranslator, batch: Pairs, *, words_within: bool) -> Tensor:
    """A loop over the target: the cell, the attention written out and, if `words_within`, the output."""
    assert model.attention is not None
    assert isinstance(model.attention.score, Additive)
    state = model.start(batch.source)
    assert state.memory is not None
    keys, values = (part[:, 0] for part in (state.memory.layers[0].key, state.memory.layers[0].value))
    hidden, cell = state.hidden[:, 0].unbind(1)
    score, stack = model.attention.score, model.decoder.stack
    weights = [getattr(stack, f"{name}_l0") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    outside = ~batch.source.real()
    said: list[Tensor] = []
    for x in model.target_embedding(batch.target.decoder_input()).unbind(1):
        hidden, cell = torch.lstm_cell(x, [hidden, cell], *weights)
        asked = torch.tanh(keys + F.linear(hidden, score.query_weight)[:, None])
        mass = torch.softmax((asked @ score.vector).masked_fill(outside, -torch.inf), -1)
        joined = torch.cat([hidden, (mass[:, None] @ values)[:, 0]], -1)
        said.append(model._words(joined) if words_within else joined)
    every = torch.stack(said, 1)
    logits = every if words_within else model._words(every)
    targets = batch.target.tokens.masked_fill(~batch.target.real(), -100)
    return F.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), ignore_index=-100, label_smoothing=model.config.smoothing
    )


CONTENDERS: dict[str, Loss] = {
    "regard": ours,
    "a loop, the output once": partial(by_steps, words_within=False),
    "a loop, the output in it": partial(by_steps, words_within=True),
}
CAPTURED = "regard, captured"


def batch_of(rows: int, shortest: int, longest: int, device: str) -> Pairs:
    """Random tokens; lengths even between two."""

    def side() -> Sequences:
        lengths = torch.randint(shortest, longest + 1, (rows,)).tolist()
        return Sequences.of([torch.randint(3, VOCABULARY, (length,)).tolist() for length in lengths])

    return Pairs(side().to(device), side().to(device))


def differences(model: RecurrentTranslator, batch: Pairs) -> dict[str, float]:
    """How far loss and gradients of each way are from ours, relative to their size, without dropout."""
    found: dict[str, list[Tensor]] = {}
    for name, loss in {**CONTENDERS, CAPTURED: filled_up}.items():
        one = copy.deepcopy(model).eval()
        with torch.backends.cudnn.flags(enabled=False):  # which refuses to go back through a model at rest
            total = loss(one, batch)
            found[name] = [total, *torch.autograd.grad(total, list(one.parameters()))]
    return {
        name: max(
            float(((a - b).norm() / b.norm().clamp_min(1e-12)).detach())
            for a, b in zip(each, found["regard"], strict=True)
        )
        for name, each in found.items()
    }


def updates(
    model: RecurrentTranslator, loss: Loss, batch: Pairs, device: str, *, narrow: bool
) -> Callable[[], None]:
    """One update of a model of its own, over and over."""
    one = copy.deepcopy(model).train()
    optimiser = torch.optim.AdamW(one.parameters(), lr=1e-4, fused=True)

    def update() -> None:
        optimiser.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16, enabled=narrow):
            total = loss(one, batch)
        total.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(one.parameters(), 1.0)
        optimiser.step()
        if device == "cuda":
            torch.cuda.synchronize()

    return update


class Again:
    """A feed of one batch, over and over."""

    def __init__(self, batch: Pairs) -> None:
        self.one = batch.to("cpu")

    def order(self, epoch: int) -> list[range]:
        """The batch, whole."""
        return [range(len(self.one))]

    def batch(self, samples: object) -> Pairs:
        """The batch, whatever is asked for."""
        return self.one


def captured(model: RecurrentTranslator, batch: Pairs, *, narrow: bool) -> Callable[[], None]:
    """One update of a model of its own, as the training loop makes it: the next batch is sent over meanwhile."""
    settings = Training(
        cuda_graphs="auto",
        precision="bfloat16" if narrow else "float32",
        clip=1.0,
        learning_rate=1e-4,
        warmup=1,
    )
    state, feed = TrainingState(copy.deepcopy(model).train(), settings), Again(batch)
    updater = Updater(state, settings, world=World(torch.device("cuda")), seed=0)
    place = BatchPlace(0, 0, range(len(batch)))
    upcoming = [updater.prepare(feed, place)]

    def update() -> None:
        work = upcoming.pop()
        pending = updater.compute(work, stop=False)
        upcoming.append(updater.prepare(feed, place))
        updater.apply(work, pending)
        torch.cuda.synchronize()

    for _ in range(4):  # until it is captured
        update()
    return update


def contest(width: int, rows: int, longest: int, rounds: int, device: str) -> dict[str, object]:
    """All contenders at one size."""
    torch.manual_seed(0)
    config = RecurrentConfig(
        width=width, embedding_width=width, attention="additive", wiring="output-context",
        source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY,
    )  # fmt: skip
    model = RecurrentTranslator(config).to(device)
    batch = batch_of(rows, longest // 3, longest, device)
    apart = differences(model, batch)
    runs = {
        f"{name}, {'bfloat16' if narrow else 'float32'}": updates(model, loss, batch, device, narrow=narrow)
        for narrow in (False, True)
        for name, loss in CONTENDERS.items()
    }
    if device == "cuda":
        for narrow in (False, True):
            name = f"{CAPTURED}, {'bfloat16' if narrow else 'float32'}"
            runs[name] = captured(model, batch, narrow=narrow)
    times = measure(runs, rounds)
    best = min(
        (name for name in times if name.startswith("regard")), key=lambda name: statistics.median(times[name])
    )
    ratios = {name: [a / b for a, b in zip(taken, times[best], strict=True)] for name, taken in times.items()}
    return {
        "size": f"width {width}, {rows} sentences of {longest // 3} to {longest} tokens",
        "target tokens": int(batch.target.lengths.sum()),
        "milliseconds": {name: [statistics.median(taken), *spread(taken)] for name, taken in times.items()},
        "best": best,
        "ratio": {name: [statistics.median(each), min(each), max(each)] for name, each in ratios.items()},
        "difference": apart,
    }


def table(about: dict[str, object], contests: list[dict[str, object]]) -> str:
    """The figures as Markdown."""
    lines = ["# The recurrent translator beside a loop over its steps", ""]
    lines += [
        f"Made by `python benchmarks/recurrent.py`. {'; '.join(f'{k}: {v}' for k, v in about.items())}.",
        "",
        "Additive score, output context, one layer of LSTM each, vocabulary 10,000. `regard is`, in the best of its ways, so many "
        "times as fast, the median of interleaved rounds (least – most). `difference` is the largest of loss and gradients from ours, relative to their norm, in float32 without dropout.",
        "",
        "| size | contender | ms an update (10th–90th) | target tokens/s | regard is | difference |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for each in contests:
        for name, (middle, low, high) in each["milliseconds"].items():  # type: ignore[attr-defined]
            ratio = each["ratio"][name]  # type: ignore[index]
            lines.append(
                f"| {each['size']} | {name} | {middle:.1f} ({low:.1f}–{high:.1f}) | "
                f"{1e3 * each['target tokens'] / middle:,.0f} | "  # type: ignore[operator]
                f"{ratio[0]:.2f}× ({ratio[1]:.2f}–{ratio[2]:.2f}) | {each['difference'][name.rpartition(', ')[0]]:.1e} |"  # type: ignore[index]
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    about = machine()
    sizes = [(256, 64, 24), (512, 64, 24)] if options.device == "cpu" else [(256, 64, 24), (512, 256, 24)]
    contests: list[dict[str, object]] = []
    name = "recurrent" if options.device == "cpu" else "recurrent-gpu"
    options.out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    for width, rows, longest in sizes:
        print(
            f"{time.perf_counter() - began:.0f} s: width {width}, {rows} sentences up to {longest} tokens",
            file=sys.stderr,
            flush=True,
        )
        contests.append(contest(width, rows, longest, options.rounds, options.device))
        (options.out / f"{name}.json").write_text(
            json.dumps({"machine": about, "contests": contests}, indent=1) + "\n"
        )
        (options.out / f"{name}.md").write_text(table(about, contests))
    print(table(about, contests))


if __name__ == "__main__":
    main()
