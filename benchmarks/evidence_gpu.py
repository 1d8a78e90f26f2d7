"""Evidence on a GPU: what asking costs beside the fastest fused forward, in one run, with its answers checked.

    python benchmarks/evidence_gpu.py                  # every part, about two minutes on an H200
    python benchmarks/evidence_gpu.py --only table     # or: million, llama, monitor, tilings

bf16, 16 heads. A ratio is the time of asking over that of `scaled_dot_product_attention` on the fastest of its
backends, both taken in turns. "Given the log-sum-exp" is with what the forward pass tells a watcher; otherwise the
kernels find it themselves. Answers are compared with float64 weights of some queries before anything is timed.
"""

import argparse
import itertools
import json
import math
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, no_type_check

import torch
import triton
import triton.language as tl
from measuring import machine
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from regard import Call, Monitor, causal, watch, weigh
from regard.sight import evidence
from regard.sight.interpose import LogSumExpCapture

Run = Callable[[], object]
HEADS, MAP = 16, 128
ABOUT = (
    "Ratios are of runs one after another, at least 6 ms of them, so that the device need not wait for the host; `alone` "
    "is one run on an idle device, and the host is in it. In an open watch a forward pays what every layer of a model "
    "pays; opening one is paid once a model."
)
BACKENDS = (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION)


def milliseconds(
    runs: dict[str, Run],
    budget: float = 0.1,
    within: dict[str, Callable[[], Any]] | None = None,
    together: float = 0.0,
) -> dict[str, list[float]]:
    """Milliseconds of every run by the clock of the device, in turns, for about `budget` seconds each.

    So many runs are timed `together` as take that many milliseconds: then the device need not wait for the host, as it
    does not in a model of many layers. What a run is `within` is entered and left while nobody looks at the clock.

    Every turn begins with another run, and every other one goes backwards: the chip slows down while it draws more
    than its power, so that a run pays for what ran before it.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    counts = dict.fromkeys(runs, 1)
    turns = itertools.count()

    def turn() -> None:
        number = next(turns)
        order = list(runs)[number % len(runs) :] + list(runs)[: number % len(runs)]
        for name in order[:: -1 if number % 2 else 1]:
            run = runs[name]
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            with (within or {}).get(name, nullcontext)():
                torch.cuda.synchronize()
                start.record()
                for _ in range(counts[name]):
                    run()
                stop.record()
                stop.synchronize()
            times[name].append(start.elapsed_time(stop) / counts[name])

    turn()  # compiles and warms up
    if together:
        turn()
        counts = {name: max(1, math.ceil(together / taken[1])) for name, taken in times.items()}
    begun = time.perf_counter()
    turn()
    once = time.perf_counter() - begun
    for _ in range(max(2, min(30, int(budget * len(runs) / once)))):
        turn()
    return {name: taken[2 if together else 1 :] for name, taken in times.items()}


@triton.jit
@no_type_check
def exponentials(out, rounds, SIZE: tl.constexpr):  # noqa: N803
    """SIZE chains of base-2 exponentials."""
    x = tl.arange(0, SIZE).to(tl.float32) * -1e-4 - tl.program_id(0)
    for _ in range(rounds):
        x = tl.exp2(x) - 1.0
    tl.store(out + tl.program_id(0) * SIZE + tl.arange(0, SIZE), x)


def ceilings() -> dict[str, float]:
    """What the chip does at most, measured: base-2 exponentials a second and a large product in bf16."""
    programs, rounds, size = 132 * 16, 4096, 1024
    out = torch.empty(programs * size, device="cuda")
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    times = milliseconds(
        {
            "exp": lambda: exponentials[(programs,)](out, rounds, SIZE=size, num_warps=4),
            "product": lambda: a @ b,
        }
    )
    return {
        "exp2 per second": programs * rounds * size / statistics.median(times["exp"]) * 1e3,
        "bf16 FLOP per second": 2 * 8192**3 / statistics.median(times["product"]) * 1e3,
    }


def check(call: Call, level: Tensor) -> dict[str, float]:
    """The largest errors of every answer against float64, over some queries (all of a short call for the keys)."""
    length = call.query.shape[-2]
    part = Call(call.query[:, :, -1024:], call.key[:, :, -1024:], call.mask)
    weights = weigh(Call(part.query.double(), part.key.double(), part.mask))
    cells = weights.reshape(*weights.shape[:2], 16, 64, 16, 64).sum(-1).mean(-2)
    rows = torch.tensor([0, length // 2, length - 1], device="cuda")
    scores = call.query[:, :, rows].double() @ call.key.double().mT / call.query.shape[-1] ** 0.5
    if call.mask is not None:
        scores = scores.masked_fill(torch.arange(length, device="cuda") > rows[:, None], -torch.inf)
    exact = scores.softmax(-1)
    errors: dict[str, float] = {}

    def error(name: str, found: Tensor, truth: Tensor) -> None:
        errors[name] = (found.double() - truth).abs().max().item()

    known: Tensor | None = None
    for given in ("", ", given"):
        summing, ranking, pooling = (
            evidence.Summing(part),
            evidence.Ranking(part, 8),
            evidence.Pooling(part, 16, 16),
        )
        evidence.ask(part, summing, ranking, pooling, level=known)
        found = summing.answer()
        error("entropy" + given, found.entropy, -torch.special.xlogy(weights, weights).sum(-1))
        error("peak" + given, found.peak, weights.amax(-1))
        error("received" + given, found.received, weights.sum(-2))
        error("map" + given, pooling.answer(), cells)
        error("top" + given, ranking.answer()[1], weights.topk(8).values)
        known = found.logsumexp
        looks, heavy = evidence.Looking(call), evidence.Ranking(call, 8)
        for question in (looks, heavy):  # together they would take one pass, which asks for less
            evidence.ask(call, question, level=level if given else None)
        full = looks.answer().entropy[:, :, rows]
        error("entropy at full length" + given, full, -torch.special.xlogy(exact, exact).sum(-1))
        error("top at full length" + given, heavy.answer()[1][:, :, rows], exact.topk(8).values)
    error("log-sum-exp of the forward", level[:, :, rows], scores.logsumexp(-1))
    return errors


def fastest(query: Tensor, key: Tensor, value: Tensor, *, flag: bool) -> tuple[SDPBackend, Run]:
    """The backend whose forward takes the least time."""

    backends = list(BACKENDS)

    def forward(backend: SDPBackend, query: Tensor, key: Tensor, value: Tensor) -> object:
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(query, key, value, is_causal=flag)

    for few in (slice(0, 4096), slice(None)):  # the slow ones are known by less
        taken = {}
        parts = [part[..., few, :] for part in (query, key, value)]
        for backend in backends:
            try:
                taken[backend] = statistics.median(
                    milliseconds({"": partial(forward, backend, *parts)}, 0.02)[""]
                )
            except RuntimeError:
                continue
        backends = [backend for backend in taken if taken[backend] < 1.4 * min(taken.values())]
        if len(backends) == 1:
            break
    best = min(backends, key=lambda backend: taken[backend])
    return best, lambda: forward(best, query, key, value)


class Attending(nn.Module):
    """A model that is one attention call, to be watched."""

    def __init__(self, backend: SDPBackend, *, flag: bool) -> None:
        super().__init__()
        self.backend, self.flag = backend, flag

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """On the backend that is the fastest."""
        with sdpa_kernel(self.backend):
            return F.scaled_dot_product_attention(query, key, value, is_causal=self.flag)


def held_by_watching(
    model: nn.Module, query: Tensor, key: Tensor, value: Tensor
) -> tuple[Tensor, dict[str, float]]:
    """The log-sum-exp that the forward tells when asked, and megabytes: of query and key, and what a watcher takes."""

    def peak() -> float:
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() / 2**20

    before = torch.cuda.memory_allocated() / 2**20
    torch.cuda.reset_peak_memory_stats()
    plain = model(query, key, value)
    alone = peak() - before
    del plain
    torch.cuda.reset_peak_memory_stats()
    with watch(model) as seen:
        model(query, key, value)
    memory = {
        "query and key": (query.nbytes + key.nbytes) / 2**20,
        "peak of the forward": alone,
        "peak under watch": peak() - before,
        "held afterwards": torch.cuda.memory_allocated() / 2**20 - before,
    }
    seen.layers.clear()
    with LogSumExpCapture() as heard:  # type: ignore[no-untyped-call]
        model(query, key, value)
    level = heard.of(query)
    if level is None:
        raise RuntimeError(f"the forward of {type(model).__name__} told no log-sum-exp")
    return level, memory


def one_case(length: int, width: int, *, flag: bool, limits: dict[str, float]) -> dict[str, Any]:
    """Every row of the table at one length and width."""
    query, key, value = (
        torch.randn(1, HEADS, length, width, device="cuda", dtype=torch.bfloat16) for _ in range(3)
    )
    call = Call(query, key, causal() if flag else None)
    backend, forward = fastest(query, key, value, flag=flag)
    model = Attending(backend, flag=flag)
    level, memory = held_by_watching(model, query, key, value)
    errors = check(call, level)

    def watched() -> None:
        with watch(model):
            model(query, key, value)

    def told() -> None:
        with LogSumExpCapture():  # type: ignore[no-untyped-call]
            model(query, key, value)

    def ask(*kinds: Callable[[Call], evidence.Question[Any]], level: Tensor | None = None) -> None:
        evidence.ask(call, *(kind(call) for kind in kinds), level=level)

    def pooling(call: Call) -> evidence.Pooling:
        return evidence.Pooling(call, MAP, MAP)

    def ranking(call: Call) -> evidence.Ranking:
        return evidence.Ranking(call, 8)

    given = ", given the log-sum-exp"
    forwards: dict[str, Run] = {
        "forward": forward,
        "forward in an open watch": lambda: model(query, key, value),
        "opening a watch, forward": watched,
        "forward that tells the log-sum-exp": told,
    }
    asking: dict[str, Run] = {
        "forward": forward,
        "entropy + peak": lambda: ask(evidence.Looking),
        "entropy + peak" + given: lambda: ask(evidence.Looking, level=level),
        "entropy + peak + received + map": lambda: ask(evidence.Summing, pooling),
        "entropy + peak + received + map" + given: lambda: ask(evidence.Summing, pooling, level=level),
        "top 8": lambda: ask(ranking),
        "top 8" + given: lambda: ask(ranking, level=level),
    }
    within = {"forward in an open watch": lambda: watch(model)}
    pairs = HEADS * length * (length + 1) / 2 if flag else HEADS * length * length
    short, rows = length <= 32768, {}
    # Apart, for forwards are told from one another by hundredths: all draw the same power and leave the chip as warm.
    for runs, budget in ((forwards, 0.1 if short else 0.8), (asking, 0.1)):
        times = milliseconds(runs, budget, within, together=6.0 if short else 0.0)
        alone = milliseconds(runs, 0.02, within) if short else times
        for name in runs:
            if name not in rows:
                work = _work(name, pairs, width)
                rows[name] = _row(
                    name, times, alone, {limit: work[limit] / limits[limit] for limit in limits}
                )
    return {
        "tokens": length,
        "width": width,
        "causal": flag,
        "backend": backend.name,
        "errors": errors,
        "memory": memory,
        "rows": rows,
    }


def _work(name: str, pairs: float, width: int) -> dict[str, float]:
    """The exponentials and the products of a run, as they are limited."""
    passes = 2 if "received" in name and "given" not in name else 1
    exponentials = 0 if name.startswith("top") and "given" in name else passes
    products = 4 if "forward" in name else 2 * passes
    return {"exp2 per second": exponentials * pairs, "bf16 FLOP per second": products * pairs * width}


def _row(
    name: str, times: dict[str, list[float]], alone: dict[str, list[float]], least: dict[str, float]
) -> dict[str, Any]:
    """What was measured of a run; `least` are the seconds that the chip would need at its limits."""
    taken, middle = times[name], statistics.median(times[name]) / 1e3
    ratios = [mine / theirs for mine, theirs in zip(taken, times["forward"], strict=True)]
    return {
        "milliseconds": [statistics.median(taken), min(taken), max(taken)],
        "ratio": [statistics.median(ratios), min(ratios), max(ratios)],
        "alone": statistics.median(alone[name]) / statistics.median(alone["forward"]),
        "of exp2": least["exp2 per second"] / middle,
        "of the tensor cores": least["bf16 FLOP per second"] / middle,
    }


def million() -> dict[str, Any]:
    """1,048,576 tokens, one head: entropy, received and a 1024 × 1024 map, and the memory beyond query and key."""
    length = 1 << 20
    query, key = (torch.randn(1, 1, length, 64, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    call = Call(query, key, causal())
    torch.cuda.synchronize()
    held = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    begun = time.perf_counter()
    summing, pooling = evidence.Summing(call), evidence.Pooling(call, 1024, 1024)
    evidence.ask(call, summing, pooling)
    summary, cells = summing.answer(), pooling.answer()
    torch.cuda.synchronize()
    taken = time.perf_counter() - begun
    extra = torch.cuda.max_memory_allocated() - held
    rows = torch.tensor([0, 12345, length // 2, length - 1], device="cuda")
    scores = query[0, 0, rows].double() @ key[0, 0].double().T / 8.0
    exact = scores.masked_fill(torch.arange(length, device="cuda") > rows[:, None], -torch.inf).softmax(-1)
    entropy = -torch.special.xlogy(exact, exact).sum(-1)
    return {
        "seconds, compiling included": taken,
        "extra gigabytes": extra / 2**30,
        "entropy error": (summary.entropy[0, 0, rows] - entropy).abs().max().item(),
        "received in all, of the queries": summary.received.double().sum().item() / length,
        "rows of the map sum to": [cells.sum(-1).min().item(), cells.sum(-1).max().item()],
    }


def llama(length: int = 32768) -> dict[str, Any]:
    """A Llama-shaped random model watched and summarised, against `output_attentions` at the longest length that fits."""
    from transformers import LlamaConfig, LlamaModel

    config = LlamaConfig(
        hidden_size=4096,
        intermediate_size=11008,
        num_hidden_layers=8,
        vocab_size=1000,
        num_attention_heads=32,
        num_key_value_heads=8,
        max_position_embeddings=length,
    )
    with torch.device("cuda"), torch.no_grad():
        torch.set_default_dtype(torch.bfloat16)
        model = LlamaModel(config).eval()  # type: ignore[no-untyped-call]
        torch.set_default_dtype(torch.float32)
    tokens = torch.randint(0, 1000, (1, length), device="cuda")

    def plain(count: int) -> None:
        model(tokens[:, :count], use_cache=False)

    def summarised(count: int) -> None:
        with watch(model, keep="evidence", ask=("entropy", "received")):
            model(tokens[:, :count], use_cache=False)

    def returned(count: int) -> None:
        model(tokens[:, :count], use_cache=False, output_attentions=True)

    found: dict[str, Any] = {"layers": 8, "tokens": length}
    with torch.no_grad():
        for name, run in (("plain", plain), ("summarised", summarised)):
            run(length)
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            run(length)
            torch.cuda.synchronize()
            found[f"gigabytes at most, {name}"] = torch.cuda.max_memory_allocated() / 2**30
        times = milliseconds({"plain": lambda: plain(length), "summarised": lambda: summarised(length)}, 0.5)
        found |= {name: statistics.median(taken) for name, taken in times.items()}
        model.set_attn_implementation("eager")
        for count in (16384, 8192, 4096, 2048):
            torch.cuda.empty_cache()
            try:
                found["output_attentions"] = statistics.median(
                    milliseconds({"": partial(returned, count)}, 0.3)[""]
                )
            except torch.OutOfMemoryError:
                continue
            found["output_attentions fits up to"] = count
            model.set_attn_implementation("sdpa")
            times = milliseconds(
                {
                    "plain": partial(plain, count),
                    "summarised": partial(summarised, count),
                }
            )
            found |= {f"{name} there": statistics.median(taken) for name, taken in times.items()}
            break
    return found


def monitored() -> dict[str, Any]:
    """A training step of a base-size encoder-decoder with and without the monitor."""
    torch.manual_seed(0)
    model = nn.Transformer(512, 8, 6, 6, 2048, batch_first=True).cuda().train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    source, target = (torch.randn(64, 64, 512, device="cuda") for _ in range(2))
    mask = nn.Transformer.generate_square_subsequent_mask(64, device=torch.device("cuda"))
    monitor = Monitor(model, every=1, write=lambda record: None)

    def step(*, looking: bool) -> None:
        with torch.autocast("cuda", torch.bfloat16):
            if looking:
                with monitor.at(0):
                    output = model(source, target, tgt_mask=mask, tgt_is_causal=True)
            else:
                output = model(source, target, tgt_mask=mask, tgt_is_causal=True)
        output.float().square().mean().backward()
        optimiser.step()
        optimiser.zero_grad()

    times = milliseconds({"step": lambda: step(looking=False), "monitored": lambda: step(looking=True)}, 0.8)
    plain, looked = (statistics.median(times[name]) for name in ("step", "monitored"))
    return {
        "step, ms": plain,
        "monitored step, ms": looked,
        "overhead, looking at every step": looked / plain - 1,
        "overhead, looking at every hundredth": (looked / plain - 1) / 100,
    }


def tilings(length: int = 16384) -> list[dict[str, Any]]:
    """Sizes of tiles against one another: the times from which `tilings.py` chooses."""
    from regard.sight.kernels import launch
    from regard.sight.kernels.kernel_mask import kernel_call
    from regard.sight.kernels.tilings import EvidenceTiling

    sizes = [(64, 128, 4, 2), (64, 64, 4, 3), (128, 64, 4, 3), (128, 128, 4, 2), (128, 64, 8, 2)]
    found = []
    for width in (64, 128):
        query, key, value = (
            torch.randn(1, HEADS, length, width, device="cuda", dtype=torch.bfloat16) for _ in range(3)
        )
        for flag in (False, True):
            told = kernel_call(Call(query, key, causal() if flag else None))
            level = launch.look(told).level
            forward = fastest(query, key, value, flag=flag)[1]
            for tall, size, warps, stages in sizes:
                for registers in (None, 96, 128, 168):
                    tiling = EvidenceTiling(
                        tall=tall, size=size, warps=warps, stages=stages, registers=registers
                    )
                    runs: dict[str, Run] = {
                        "forward": forward,
                        "rows": partial(launch.look, told, tiling=tiling),
                        "rows, given": partial(launch.look, told, level, tiling=tiling),
                        "keys": partial(launch.collect, told, level, tiling=tiling),
                        "map": partial(launch.collect, told, level, (MAP, MAP), tiling=tiling),
                        "once, map": partial(launch.single_pass, told, level, (MAP, MAP), tiling=tiling),
                        "top": partial(launch.look, told, top=8, tiling=tiling),
                        "top, given": partial(launch.look, told, level, top=8, tiling=tiling),
                    }
                    times = {
                        name: statistics.median(taken) for name, taken in milliseconds(runs, 0.05).items()
                    }
                    found.append({"width": width, "causal": flag, "tiling": str(tiling), **times})
                    print(found[-1], flush=True)
    return found


def table(cases: list[dict[str, Any]]) -> str:
    """The cases as Markdown."""
    lines = [
        "| tokens | width | causal | what | ms (min–max) | × the forward (min–max) | alone | of exp2 | of the tensor cores |",
        "|---:|---:|---|---|---:|---:|---:|---:|---:|",
    ]
    for case in cases:
        for name, row in case["rows"].items():
            ms, ratio = row["milliseconds"], row["ratio"]
            what = f"{name} ({case['backend']})" if name == "forward" else name
            lines.append(
                f"| {case['tokens']} | {case['width']} | {'yes' if case['causal'] else 'no'} | {what} | "
                f"{ms[0]:.2f} ({ms[1]:.2f}–{ms[2]:.2f}) | {ratio[0]:.2f} ({ratio[1]:.2f}–{ratio[2]:.2f}) | {row['alone']:.2f} | "
                f"{row['of exp2']:.0%} | {row['of the tensor cores']:.0%} |"
            )
    return "\n".join(lines) + "\n"


def _order(case: dict[str, Any]) -> tuple[int, int, bool]:
    return case["tokens"], case["width"], case["causal"]


def main() -> None:
    """Measure, print, write after every part, so that what breaks off keeps what there is."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = ["table", "million", "llama", "monitor", "tilings"]
    parser.add_argument("--only", choices=parts, action="append", help="a part; may be repeated")
    parser.add_argument("--lengths", type=int, nargs="+", default=[8192, 16384, 32768, 131072])
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results", help="folder for the results"
    )
    options = parser.parse_args()
    wanted = options.only or parts[:-1]
    limits = ceilings()
    found: dict[str, Any] = {"machine": machine(), "ceilings": limits, "cases": []}
    print(found, flush=True)

    def write() -> None:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "evidence_gpu.json").write_text(json.dumps(found, indent=1))
        about = "; ".join(f"{k}: {v}" for k, v in {**found["machine"], **limits}.items())
        rest = "".join(
            f"\n**{part}** "
            + "; ".join(f"{k}: {v:.4g}" if isinstance(v, float) else f"{k}: {v}" for k, v in told.items())
            + "\n"
            for part, told in found.items()
            if part not in ("machine", "ceilings", "cases", "tilings")
        )
        (options.out / "evidence_gpu.md").write_text(
            f"# Evidence on a GPU\n\nMade by `python benchmarks/evidence_gpu.py`. {about}.\n\n{ABOUT}\n\n{table(found['cases'])}{rest}"
        )

    makers: dict[str, Callable[[], Any]] = {
        "million": million,
        "llama": llama,
        "monitor": monitored,
        "tilings": tilings,
    }
    for part in wanted:
        if part == "table":
            for length in options.lengths:
                for width in (64, 128):
                    for flag in (False, True):
                        case = one_case(length, width, flag=flag, limits=limits)
                        print(table([case]), case["errors"], case["memory"], flush=True)
                        found["cases"] = sorted([*found["cases"], case], key=_order)
                        write()
        else:
            found[part] = makers[part]()
            print(part, found[part], flush=True)
            write()


if __name__ == "__main__":
    main()
