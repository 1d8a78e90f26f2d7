"""Additive attention on a GPU: the fused kernels against the equation and torch.compile of it.

    python benchmarks/additive.py            # about a minute on one H200, most of it compiling
    python benchmarks/additive.py --sweep    # also other tile sizes of the forward kernel, five seconds each

Times of whole calls are medians over interleaved rounds, by the host's clock around a synchronised call: they contain
the maps of queries and keys, Python and launches. Beside them stands the time of the device alone, the sum over the
call's kernels, by the profiler. The limit is one tanh for each pair that may look and each hidden unit at the rate that
the special-function unit sustains, measured in the same run; the kernels take a reciprocal for every two instead, so
they may pass it. Before anything is timed, output and gradients are compared with float64.
"""

import argparse
import json
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import no_type_check

import torch
import triton  # type: ignore[import-untyped,import-not-found,unused-ignore]
import triton.language as tl  # type: ignore[import-untyped,import-not-found,unused-ignore]
from measuring import machine, measure, spread
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from regard import Additive, Call, attend, causal, explain, weigh
from regard.attention.kernels import additive_launch
from regard.attention.kernels.additive_problem import FORWARD, Problem
from regard.sight import evidence

INSTRUCTIONS = {
    "tanh": "tanh.approx.f32 $0, $1;",
    "tanh of two bfloat16": "tanh.approx.bf16x2 $0, $1;",
    "tanh of two float16": "tanh.approx.f16x2 $0, $1;",
    "reciprocal and sum": "{ .reg .f32 t; rcp.approx.ftz.f32 t, $1; add.f32 $0, t, 0f3F800000; }",
}
WIDTH = 64  # of queries and keys before their maps
Contender = Callable[[Call, Tensor], Tensor]
PEERS_FIT = {
    "forward": 4 * 4096**2 * 128,
    "backward": 16 * 1024**2 * 64,
}  # q × k × r up to which peers are asked


@triton.jit  # type: ignore[untyped-decorator,unused-ignore]
@no_type_check
def repeat_kernel(out, turns, ASSEMBLY: tl.constexpr, BLOCK: tl.constexpr):  # noqa: N803
    """One instruction over and over, eight chains a thread."""
    x = tl.arange(0, BLOCK)
    for _ in range(turns):
        for _ in tl.static_range(8):
            x = tl.inline_asm_elementwise(ASSEMBLY, "=r,r", [x], dtype=tl.int32, is_pure=False, pack=1)
    tl.store(out + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), x)


@dataclass(frozen=True)
class Row:
    """One contender at one shape."""

    shape: str
    mode: str
    contender: str
    milliseconds: float  # the whole call, by the host's clock
    spread: tuple[float, float]
    ratio: float  # to regard, within each round; median
    device: float  # milliseconds of its kernels
    of_limit: float  # by the device's time
    of_forward: float  # the device's time over that of the same contender's forward; 0: has none
    gigabytes: float  # the most held beyond the inputs


def rates(clock: float) -> dict[str, float]:
    """How many of each instruction a multiprocessor finishes in a cycle of the highest clock."""
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    programs, block, turns = 4 * processors, 1024, 2000
    found = {}
    for name, assembly in INSTRUCTIONS.items():
        out = torch.empty(programs * block, dtype=torch.int32, device="cuda")

        def run(out: Tensor = out, assembly: str = assembly) -> None:
            repeat_kernel[(programs,)](out, turns, assembly, block, num_warps=4)

        milliseconds = min(events(run) for _ in range(4))
        numbers = programs * block * turns * 8 * (2 if "two" in name else 1)
        found[name] = numbers / (milliseconds * 1e-3 * clock * processors)
    return found


def events(run: Callable[[], object]) -> float:
    """Milliseconds on the device."""
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    start.record()
    run()
    stop.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(stop))


def call_of(entries: int, length: int, hidden: int, value_width: int, masked: bool) -> tuple[Call, Tensor]:
    """Random bfloat16 rows of unit variance after their maps."""
    score = Additive(WIDTH, WIDTH, hidden=hidden).to("cuda", torch.bfloat16)
    query, key = (torch.randn(1, entries, length, WIDTH, device="cuda").bfloat16() for _ in range(2))
    value = torch.randn(1, entries, length, value_width, device="cuda").bfloat16()
    parts = [part.requires_grad_() for part in (query, key, value)]
    return Call(parts[0], parts[1], causal() if masked else None, score=score), parts[2]


def by_equation(call: Call, value: Tensor) -> Tensor:
    """As one would type it."""
    scores = call.score(call.query, call.key)
    if call.mask is not None:
        allowed = call.mask.dense(*scores.shape[-2:], device=scores.device)
        scores = scores.masked_fill(~allowed, -torch.inf)
    return torch.softmax(scores.float(), -1).to(value.dtype) @ value


def errors() -> dict[str, dict[str, float]]:
    """‖error‖ / ‖truth‖ against float64 of the kernel and of the equation in the same dtype."""
    found = {}
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        torch.manual_seed(1)
        score = Additive(WIDTH, WIDTH, hidden=128).to("cuda", dtype)
        query, key, value = (torch.randn(1, 2, 301, WIDTH, device="cuda").to(dtype) for _ in range(3))
        upstream = torch.randn(1, 2, 301, WIDTH, device="cuda").to(dtype)
        exact = Additive(WIDTH, WIDTH, hidden=128).to("cuda", torch.float64)
        exact.load_state_dict(score.state_dict())
        truth = _with_gradients(
            exact, [part.double() for part in (query, key, value)], upstream.double(), weigh
        )
        kernel = _with_gradients(score, [query, key, value], upstream, None)
        plain = _with_gradients(score, [query, key, value], upstream, by_equation)
        names = ("output", "query", "key", "value", "V", "W", "v")
        for name, mine, theirs, real in zip(names, kernel, plain, truth, strict=True):
            found[f"{str(dtype).removeprefix('torch.')} {name}"] = {
                "kernel": float((mine.double() - real).norm() / real.norm()),
                "equation": float((theirs.double() - real).norm() / real.norm()),
            }
    return found


def _with_gradients(
    score: Additive, parts: list[Tensor], upstream: Tensor, by: Callable[..., Tensor] | None
) -> list[Tensor]:
    inputs = [part.clone().requires_grad_() for part in parts]
    call = Call(inputs[0], inputs[1], causal(), score=score)
    if by is None:
        output = attend(call, inputs[2])
    else:
        output = by(call) @ inputs[2] if by is weigh else by(call, inputs[2])
    weights = [score.query_weight, score.key_weight, score.vector]
    return [output, *torch.autograd.grad(output, [*inputs, *weights], upstream)]


def rows_of(
    entries: int, length: int, hidden: int, value_width: int, masked: bool, limit: float
) -> list[Row]:
    """Every contender at a shape, both modes."""
    call, value = call_of(entries, length, hidden, value_width, masked)
    if explain(call).choice.kernel != "fused additive":
        raise SystemExit(f"the fused kernel cannot run here:\n{explain(call)}")
    numbers = entries * length * (length + 1) // 2 * hidden if masked else entries * length**2 * hidden
    shape = f"{entries} × {length}² × {hidden}, values {value_width}{', causal' if masked else ''}"
    peers: dict[str, Contender] = {
        "compiled": torch.compile(by_equation, dynamic=False),
        "equation": by_equation,
    }
    inputs = [call.query, call.key, value, *call.score.parameters()]
    rows: list[Row] = []
    for mode, most in PEERS_FIT.items():
        asked = peers if entries * length**2 * hidden <= most and not masked else {}
        if mode == "backward" and asked:  # what is compiled refuses to go back twice
            asked = {"equation": by_equation}
        contenders: dict[str, Contender] = {"regard": attend, **asked}
        runs = {name: _run(mode, one, call, value, inputs) for name, one in contenders.items()}
        times = measure(runs, 7)
        for name, run in runs.items():
            torch.cuda.synchronize()
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            run()
            held = (torch.cuda.max_memory_allocated() - before) / 2**30
            ratios = [mine / ours for mine, ours in zip(times[name], times["regard"], strict=True)]
            middle, device = statistics.median(times[name]), on_device(run)
            forward = next((row.device for row in rows if row.contender == name), device)
            rows.append(
                Row(
                    shape, mode, name, middle, spread(times[name]), statistics.median(ratios),
                    device, limit * numbers / device, device / forward, held,
                )
            )  # fmt: skip
            print(rows[-1], flush=True)
    return rows


def evidence_row(limit: float) -> Row:
    """Entropy, received mass and the rest of a call without its weights, from strips of scores."""
    call, _ = call_of(4, 4096, 128, 128, masked=False)

    def run() -> None:
        evidence.summarise(call)
        torch.cuda.synchronize()

    times = measure({"regard": run}, 3)["regard"]
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run()
    held = (torch.cuda.max_memory_allocated() - before) / 2**30
    device = on_device(run)
    share = limit * 4 * 4096**2 * 128 / device
    shape, middle = "4 × 4096² × 128", statistics.median(times)
    return Row(shape, "evidence", "regard", middle, spread(times), 1.0, device, share, 0.0, held)


def on_device(run: Callable[[], object]) -> float:
    """Milliseconds of all kernels of a run together; the mean of three runs."""
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(3):
            run()
    return sum(event.self_device_time_total for event in seen.key_averages()) / 3e3


def _run(
    mode: str, contender: Contender, call: Call, value: Tensor, inputs: list[Tensor]
) -> Callable[[], None]:
    if mode == "forward":

        def run() -> None:
            with torch.no_grad():
                contender(call, value)
            torch.cuda.synchronize()

        return run
    output = contender(call, value)
    upstream = torch.randn_like(output)

    def back() -> None:
        torch.autograd.grad(output, inputs, upstream, retain_graph=True)
        torch.cuda.synchronize()

    return back


def sweep(limit: float) -> dict[str, str]:
    """The forward kernel under other tile sizes, at the first shape."""
    call, value = call_of(4, 4096, 128, 128, masked=False)
    assert isinstance(call.score, Additive)
    query, key = call.score.map_query(call.query), call.score.map_key(call.key)
    vector = call.score.vector.expand(4, -1)
    found = {}
    for queries, unroll in product((16, 32, 64), (1, 2, 4)):
        tiling = replace(FORWARD, queries=queries, unroll=unroll)
        problem = Problem(query.detach(), key.detach(), vector.detach(), tiling=tiling)
        run = partial(additive_launch.forward, problem, value.detach())
        name = f"{queries} queries, {unroll} pairs a turn"
        try:
            run()
            middle = statistics.median(events(run) for _ in range(5))
            found[name] = f"{middle:.3f} ms, {limit * 4 * 4096**2 * 128 / middle:.0%}"
        except Exception as error:  # a tile too large for the chip is an answer too
            found[name] = str(error).splitlines()[0][:80]
        print(name, found[name], flush=True)
    return found


def table(results: dict[str, object], rows: list[Row]) -> str:
    """The results as Markdown."""
    about = "; ".join(f"{name}: {value}" for name, value in results["machine"].items())  # type: ignore[attr-defined]
    lines = ["# Additive attention on a GPU", "", f"Made by `python benchmarks/additive.py`. {about}.", ""]
    lines += ["| instruction | per cycle and multiprocessor |", "|---|---:|"]
    lines += [f"| {name} | {rate:.1f} |" for name, rate in results["rates"].items()]  # type: ignore[attr-defined]
    lines += [
        "",
        "| shape | mode | who | whole call, ms (10th–90th) | × regard | kernels, ms | of the tanh limit ",
    ]
    lines[-1] += "| × its forward | GB |"
    lines += ["|---|---|---|---:|---:|---:|---:|---:|---:|"]
    for row in rows:
        low, high = row.spread
        lines.append(
            f"| {row.shape} | {row.mode} | {row.contender} | {row.milliseconds:.2f} ({low:.2f}–{high:.2f}) "
            f"| {row.ratio:.2f} | {row.device:.2f} | {row.of_limit:.0%} | {row.of_forward:.2f} | {row.gigabytes:.2f} |"
        )
    lines += ["", "‖error‖ / ‖truth‖ against float64:", "", "| | kernel | equation |", "|---|---:|---:|"]
    for name, pair in results["errors"].items():  # type: ignore[attr-defined]
        lines.append(f"| {name} | {pair['kernel']:.1e} | {pair['equation']:.1e} |")
    if found := results.get("sweep"):
        lines += ["", "| tile | forward |", "|---|---|"]
        lines += [f"| {name} | {value} |" for name, value in found.items()]  # type: ignore[attr-defined]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Check, measure, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sweep", action="store_true", help="also time other tile sizes")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results", help="where to write")
    options = parser.parse_args()
    torch.manual_seed(0)
    clock = triton.runtime.driver.active.utils.get_device_properties(0)["sm_clock_rate"] * 1e3  # the highest
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    results: dict[str, object] = {"machine": {**machine(), "MHz": clock / 1e6}, "errors": errors()}
    print(json.dumps(results["errors"], indent=1), flush=True)
    found = rates(clock)
    results["rates"] = found
    print(found, flush=True)
    limit = 1e3 / (found["tanh"] * processors * clock)  # milliseconds a tanh
    rows: list[Row] = []
    options.out.mkdir(parents=True, exist_ok=True)

    def save() -> None:
        (options.out / "additive.json").write_text(
            json.dumps({**results, "rows": [asdict(row) for row in rows]}, indent=1)
        )
        (options.out / "additive.md").write_text(table(results, rows))

    shapes = ((4, 4096, 128, 128), (16, 1024, 64, 64), (1, 16384, 128, 64))
    for masked, shape in product((False, True), shapes):
        rows += rows_of(*shape, masked=masked, limit=limit)
        save()
    rows.append(evidence_row(limit))
    if options.sweep:
        results["sweep"] = sweep(limit)
    save()
    print(table(results, rows))


if __name__ == "__main__":
    main()
