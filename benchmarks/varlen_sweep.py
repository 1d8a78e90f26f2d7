"""Tilings of the kernels for variable lengths, timed in CUDA graphs: `python benchmarks/attend_gpu.py --sweep`."""

import json
import time
from pathlib import Path
from typing import Any

import torch
from attend_gpu import Problem, in_a_graph, why
from torch import Tensor

from regard.attention.kernels.varlen_launch import Ranges, backward, forward
from regard.attention.kernels.varlen_tilings import Part, VarlenTiling, tiling

# Which to try for heads of which width in which shapes; none spills many registers. One kernel serves all masks.
LONG, SHORT, WIDE = "64 features", "64 features, short", "128 features"
SHAPES: dict[str, tuple[tuple[int, ...], ...]] = {
    LONG: ((4, 16, 2048, 64), (8, 16, 512, 64)),
    WIDE: ((1, 16, 8192, 128), (4, 16, 2048, 128)),
    SHORT: ((8, 8, 64, 64), (32, 8, 128, 64)),
}
CANDIDATES: dict[str, dict[Part, tuple[tuple[int, int, int, int], ...]]] = {
    LONG: {
        "forward": (
            (128, 64, 4, 3),
            (128, 128, 8, 3),
            (128, 64, 8, 3),
            (64, 64, 4, 3),
            (64, 128, 4, 3),
            (128, 32, 4, 4),
        ),
        "to query": ((128, 64, 8, 3), (64, 64, 4, 3), (128, 32, 4, 3), (128, 128, 8, 2)),
        "to key": ((64, 128, 8, 3), (32, 64, 4, 3), (32, 128, 8, 3), (64, 64, 4, 3)),
    },
    WIDE: {
        "forward": ((128, 64, 8, 3), (128, 128, 8, 2), (64, 64, 4, 3), (128, 64, 8, 2)),
        "to query": ((128, 64, 8, 2), (64, 64, 4, 2), (128, 32, 8, 3)),
        "to key": ((32, 128, 8, 2), (32, 128, 8, 3), (64, 128, 8, 2), (64, 64, 8, 2)),
    },
    SHORT: {
        "forward": ((64, 64, 4, 2), (64, 32, 4, 3), (64, 64, 4, 1)),
        "to query": ((64, 64, 4, 2), (64, 32, 4, 3)),
        "to key": ((32, 64, 4, 2), (64, 64, 4, 2), (32, 32, 2, 3)),
    },
}


def timings(part: Part, problem: Problem, cuts: list[VarlenTiling]) -> dict[VarlenTiling, float | str]:
    """Microseconds of every tiling, or why it does not run. `to query` and `to key` are together with the other's default."""
    query, key, value = problem.parts
    back = problem.case.startswith("causal")
    counts = (problem.counts, 1, 0, False)
    ranges = Ranges.of_batch(counts, counts, None, 0 if back else None)
    scale = query.shape[-1] ** -0.5
    output, lse = forward(query, key, value, ranges, None, scale, 0.0)
    slope = torch.randn_like(output)
    found: dict[VarlenTiling, float | str] = {}
    for cut in cuts:

        def run(cut: VarlenTiling = cut) -> Tensor:
            if part == "forward":
                return forward(query, key, value, ranges, None, scale, 0.0, cut)[0]
            tiles = (cut, None) if part == "to query" else (None, cut)
            wanted = part == "to key"
            return backward(
                slope, query, key, value, output, lse, ranges, None, scale, 0.0, to_memory=wanted, tiles=tiles
            )[0]

        try:
            found[cut] = in_a_graph(run, calls=5, replays=7)
        except Exception as error:
            found[cut] = why(error)
    return found


def sweep(about: dict[str, Any], out: Path, budget: float) -> None:
    """Every candidate in its shapes; the best are printed first."""
    begun, rows = time.perf_counter(), []
    for kind, shapes in SHAPES.items():
        for part, candidates in CANDIDATES[kind].items():
            for shape in shapes:
                for case in ("lengths", "causal & lengths"):
                    if time.perf_counter() - begun > budget:
                        print("the time is up", flush=True)
                        break
                    problem = Problem.of(shape, case)
                    taken = timings(part, problem, [VarlenTiling(*each) for each in candidates])
                    now = tiling(part, shape[3], shape[2], shape[2], torch.bfloat16)
                    ran = sorted((each, cut) for cut, each in taken.items() if not isinstance(each, str))
                    told = "  ".join(
                        f"{tuple(cut)}{'*' if cut == now else ''} {each:.1f}" for each, cut in ran
                    )
                    why = "".join(
                        f"  {tuple(cut)}: {each}" for cut, each in taken.items() if isinstance(each, str)
                    )
                    print(
                        f"{time.perf_counter() - begun:5.0f} s {part:9s}{shape!s:20s}{case:18s}{told}{why}",
                        flush=True,
                    )
                    rows.append(
                        {
                            "part": part,
                            "shape": shape,
                            "case": case,
                            "times": {str(tuple(cut)): each for cut, each in taken.items()},
                            "default": tuple(now),
                        }
                    )
                    text = json.dumps({"machine": about, "rows": rows}, indent=1) + "\n"
                    (out / "attend-gpu-tilings.json").write_text(text, "utf-8")
