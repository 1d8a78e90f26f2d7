"""What `attend` costs on a GPU beside torch's own attention, in bfloat16: call by call, for the host alone, and in a CUDA graph.

    python benchmarks/attend_gpu.py            # about two minutes
    python benchmarks/attend_gpu.py --sweep    # the tilings of the kernels for variable lengths, about as long

Contenders run in turns, some calls at a time, and a ratio is taken within a round. Lengths are drawn uniformly between half and
full. torch's kernel gets a finished matrix where there are lengths, as flags or as numbers to add, whichever is faster;
compiled FlexAttention gets a finished block mask and `varlen_attn` packed inputs, while `attend` gets the mask that a model
would give it. `host` is the time until a call returns, without waiting for the device; `graph` is that of the device alone.
"""

import argparse
import inspect
import json
import math
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
import triton
from measuring import machine, spread
from torch import Tensor
from torch.nn import functional as F

from regard import Mask, attend, causal, lengths, window

SHAPES = ((8, 8, 64, 64), (32, 8, 128, 64), (8, 16, 512, 64), (4, 16, 2048, 64), (1, 16, 8192, 128))
CASES = ("nothing", "causal", "lengths", "causal & lengths", "window & lengths")
MODES = ("forward", "forward + backward")
NEAR = 128  # of a window
Run = Callable[[], Tensor]


@dataclass
class Row:
    """A contender in one case: microseconds, medians over rounds."""

    shape: tuple[int, ...]
    case: str
    mode: str
    name: str
    call: float
    call_spread: tuple[float, float]
    ratio: float | None  # of `attend` to this one, within rounds
    ratio_spread: tuple[float, float] | None
    host: float
    graph: float | None
    error: float | None = None  # of `attend` against this one, at real queries
    note: str = ""


@dataclass
class Problem:
    """One case in one shape."""

    shape: tuple[int, ...]
    case: str
    parts: list[Tensor]
    counts: Tensor
    real: Tensor = field(init=False)  # [b, n]

    def __post_init__(self) -> None:
        self.real = torch.arange(self.shape[2], device="cuda") < self.counts[:, None]

    @classmethod
    def of(cls, shape: tuple[int, ...], case: str) -> "Problem":
        """The same numbers every time."""
        batch, _, length, _ = shape
        torch.manual_seed(0)
        parts = [torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
        return cls(shape, case, parts, torch.randint(length // 2, length + 1, (batch,)).cuda())

    def mask(self) -> Mask | None:
        """As a model gives it, made anew for every call."""
        match self.case:
            case "nothing":
                return None
            case "causal":
                return causal()
            case "lengths":
                return lengths(self.counts)
            case "causal & lengths":
                return causal() & lengths(self.counts)
        return window(NEAR) & lengths(self.counts)

    def matrix(self) -> Tensor:
        """[b, 1, n, n]; a padded query looks at what a real one would, since torch's answer to nothing is no number."""
        length = self.shape[2]
        ahead = torch.arange(length, device="cuda") - torch.arange(length, device="cuda")[:, None]
        allowed = self.real[:, None, None, :].expand(-1, 1, length, -1)
        if self.case.startswith("causal"):
            allowed = allowed & (ahead <= 0)
        if self.case.startswith("window"):
            allowed = (allowed & (ahead.abs() < NEAR)) | (~self.real[:, None, :, None] & (ahead == 0))
        return allowed.contiguous()


def of_torch(problem: Problem) -> dict[str, Callable[..., Tensor]]:
    """Its kernel, told of the mask in every finished form."""
    kernel = F.scaled_dot_product_attention
    if problem.case in ("nothing", "causal"):
        return {"torch": partial(kernel, is_causal=problem.case == "causal")}
    flags = problem.matrix()
    added = torch.zeros(flags.shape, device="cuda", dtype=torch.bfloat16).masked_fill_(~flags, -math.inf)
    return {
        "torch, flags": partial(kernel, attn_mask=flags),
        "torch, added": partial(kernel, attn_mask=added),
    }


def of_varlen(problem: Problem) -> tuple[Callable[..., Tensor], list[Tensor]]:
    """torch's attention over packed inputs, which are ready."""
    from torch.nn.attention.varlen import varlen_attn

    counts, real = problem.counts, problem.real
    packed = [part.transpose(1, 2)[real] for part in problem.parts]
    ends = F.pad(counts.cumsum(0), (1, 0)).int()
    known = inspect.signature(varlen_attn).parameters
    limits: dict[str, Any] = {}
    if problem.case.startswith("causal"):
        limits = {"is_causal": True} if "is_causal" in known else {"window_size": (-1, 0)}
    if problem.case.startswith("window"):
        limits = {"window_size": (NEAR - 1, NEAR - 1)}
    longest = int(counts.max())

    def run(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        mixed: Tensor = varlen_attn(query, key, value, ends, ends, longest, longest, **limits)  # type: ignore[assignment]
        return mixed

    return run, packed


def of_flex(problem: Problem) -> Callable[..., Tensor]:
    """Compiled FlexAttention with a block mask that is ready."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    counts, (batch, _, length, _) = problem.counts, problem.shape
    back, near = problem.case.startswith("causal"), problem.case.startswith("window")

    def allowed(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        real = (i < counts[b]) & (j < counts[b])
        if near:
            return real & (i - j < NEAR) & (j - i < NEAR)
        return real & (j <= i) if back else real

    blocks = create_block_mask(allowed, batch, None, length, length, device="cuda")
    run: Callable[..., Tensor] = torch.compile(flex_attention, dynamic=False, fullgraph=True)
    return partial(run, block_mask=blocks)


def runs_of(how: Callable[..., Tensor], parts: list[Tensor], mode: str) -> Run:
    """A call, or a call and the gradients of its inputs."""
    if mode == "forward":
        return lambda: how(*parts)
    given = [part.detach().clone().requires_grad_() for part in parts]
    slope = torch.randn_like(how(*parts))

    def both() -> Tensor:
        return torch.autograd.grad(how(*given), given, slope)[0]

    return both


def in_a_graph(run: Run, calls: int = 10, replays: int = 10) -> float:
    """Microseconds of one call when the host has nothing to do."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            run()
    graph.replay()
    times = []
    for _ in range(replays):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        graph.replay()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) * 1e3 / calls)
    return statistics.median(times)


def timed(run: Run, calls: int) -> tuple[float, float]:
    """Microseconds of one call: of the host alone, and until the device is done with all."""
    torch.cuda.synchronize()
    start = time.perf_counter_ns()
    for _ in range(calls):
        run()
    host = time.perf_counter_ns()
    torch.cuda.synchronize()
    return (host - start) / calls / 1e3, (time.perf_counter_ns() - start) / calls / 1e3


def why(error: Exception) -> str:
    """The first line of an error."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def contest(problem: Problem, mode: str, rounds: int, flex: bool) -> list[Row]:
    """All contenders of a case, in turns."""
    contenders: dict[str, tuple[Callable[..., Tensor], list[Tensor]]] = {
        "attend": (lambda query, key, value: attend(query, key, value, problem.mask()), problem.parts)
    }
    contenders |= {name: (how, problem.parts) for name, how in of_torch(problem).items()}
    notes = {}
    if problem.case not in ("nothing", "causal"):
        makers: dict[str, Callable[[], tuple[Callable[..., Tensor], list[Tensor]]]] = {
            "varlen_attn": lambda: of_varlen(problem)
        }
        if flex:
            makers["FlexAttention"] = lambda: (of_flex(problem), problem.parts)
        for name, make in makers.items():
            try:
                contenders[name] = make()
            except Exception as error:  # a contender that is not there spoils nothing
                print(f"  {name}: {why(error)}", flush=True)
    runs, outputs = {}, {}
    for name, (how, parts) in contenders.items():
        try:
            outputs[name] = how(*parts)
            run = runs_of(how, parts, mode)
            run(), timed(run, 2)
            runs[name] = run
        except Exception as error:
            print(f"  {name}: {why(error)}", flush=True)
    calls = {name: max(1, min(20, int(4e3 / timed(run, 2)[1]))) for name, run in runs.items()}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name in random.sample(list(runs), len(runs)):
            times[name].append(timed(runs[name], calls[name]))
    rows = []
    for name, taken in times.items():
        whole = [each for _, each in taken]
        ratios = [own / other for (_, own), other in zip(times["attend"], whole, strict=True)]
        apart, mixed = None, outputs[name]
        if name != "attend" and mixed.ndim == 4:
            real = problem.real[:, None, :, None] if problem.case not in ("nothing", "causal") else True
            apart = ((outputs["attend"] - mixed).float() * real).abs().max().item()
        try:
            graph = in_a_graph(runs[name])
        except Exception as reason:
            graph, notes[name] = None, why(reason)
        rows.append(
            Row(
                problem.shape,
                problem.case,
                mode,
                name,
                statistics.median(whole),
                spread(whole),
                None if name == "attend" else statistics.median(ratios),
                None if name == "attend" else spread(ratios),
                statistics.median(host for host, _ in taken),
                graph,
                apart,
                notes.get(name, ""),
            )
        )
    return rows


def table(about: dict[str, Any], rows: list[Row]) -> str:
    """All of it as Markdown."""
    lines = [
        "# `attend` beside torch's attention on a GPU",
        "",
        "Made by `python benchmarks/attend_gpu.py`, which says how. bfloat16; microseconds, medians over rounds. *call* is one of some in a row, with",
        "the host or the device as the slower of both; *host* is until it returns; *graph* is inside a CUDA graph. The ratio is of `attend` to",
        "the contender, call by call, with its tenth and ninetieth percentile; *graph ratio* the same in a CUDA graph.",
        "",
        "; ".join(f"{what}: {value}" for what, value in about.items()) + ".",
        "",
        "| shape | mask | mode | contender | call | host | graph | ratio | graph ratio |",
        "|---|---|---|---|---:|---:|---:|---:|---:|",
    ]
    own = {(row.shape, row.case, row.mode): row for row in rows if row.name == "attend"}
    for row in rows:
        mine = own[row.shape, row.case, row.mode].graph
        ratio = (
            ""
            if row.ratio is None or row.ratio_spread is None
            else f"{row.ratio:.2f} ({row.ratio_spread[0]:.2f}–{row.ratio_spread[1]:.2f})"
        )
        again = f"{mine / row.graph:.2f}" if mine and row.graph and row.name != "attend" else ""
        words = [
            "×".join(map(str, row.shape)),
            row.case,
            row.mode,
            row.name,
            f"{row.call:.1f}",
            f"{row.host:.1f}",
        ]
        words += ["" if row.graph is None else f"{row.graph:.1f}", ratio, again]
        lines.append("| " + " | ".join(words) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sweep", action="store_true", help="time tilings of the kernels instead")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument(
        "--budget", type=float, default=140, help="seconds after which nothing is begun any more"
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    random.seed(0)
    about = {**machine(), "triton": triton.__version__}
    if options.sweep:
        from varlen_sweep import sweep

        sweep(about, options.out, options.budget)
        return
    begun, path = time.perf_counter(), options.out / "attend-gpu.json"
    rows: list[Row] = []
    # FlexAttention compiles for long: last, and of the large shapes alone.
    plan = [(shape, case, mode, False) for shape in SHAPES for case in CASES for mode in MODES]
    plan += [(shape, case, mode, True) for shape in SHAPES[3:] for mode in MODES for case in CASES[2:4]]
    for shape, case, mode, flex in plan:
        if time.perf_counter() - begun > options.budget:
            print("the time is up", flush=True)
            break
        if case.startswith("window") and shape[2] <= 2 * NEAR:
            continue
        found = contest(Problem.of(shape, case), mode, options.rounds, flex)
        at = (shape, case, mode)
        rows = [row for row in rows if (row.shape, row.case, row.mode) != at] + found
        for row in found:
            ratio = "" if row.ratio is None else f"ratio {row.ratio:.2f}"
            graph = "" if row.graph is None else f"{row.graph:9.1f}"
            print(
                f"{time.perf_counter() - begun:5.0f} s {shape!s:20s}{case:18s}{mode:20s}{row.name:14s}"
                f"{row.call:9.1f} host {row.host:7.1f} graph {graph} {ratio} {row.note}",
                *([] if row.error is None else [f"error {row.error:.1e}"]),
                flush=True,
            )
        path.write_text(
            json.dumps({"machine": about, "rows": [asdict(row) for row in rows]}, indent=1) + "\n", "utf-8"
        )
        path.with_suffix(".md").write_text(table(about, rows), "utf-8")


if __name__ == "__main__":
    main()
