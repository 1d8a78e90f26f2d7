"""`attend` beside torch's own attention on a CPU, on padded batches, forward and backward, in float32 and bfloat16.

    OMP_WAIT_POLICY=PASSIVE python benchmarks/attend_cpu.py     # about six minutes of two cores

Half of the rows of a batch have padding, up to half of their positions. torch's kernel runs with `is_causal` and no
lengths at all, so it computes the padding too and may be given less to do than is right, and with a ready mask of
numbers that are added to the scores. `attend` is given a mask that layers share (`mask.shared()`) or a new one. In every
round each runs once, in a shuffled order; ratios are taken within a round.
"""

import argparse
import json
import statistics
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from measuring import Run, machine, measure, spread
from torch import Tensor
from torch.nn import functional as F

from regard import Mask, attend, causal, lengths
from regard.attention.call import Call
from regard.attention.explain import explain

SHAPES = ((16, 8, 64, 64), (16, 8, 128, 64), (8, 8, 256, 64), (4, 8, 512, 64), (2, 8, 1024, 64))
DTYPES = (torch.float32, torch.bfloat16)
MODES = ("forward", "forward + backward")


@dataclass(frozen=True)
class Row:
    """One mask in one shape: milliseconds, medians over rounds, and ratios of `attend` to the others."""

    shape: tuple[int, ...]
    dtype: str
    mask: str
    mode: str
    kernel: str
    attend: float
    torch: dict[str, float]
    ratios: dict[str, tuple[float, float, float]]  # median, tenth and ninetieth percentile


def cases(
    shape: tuple[int, ...], dtype: torch.dtype
) -> Iterator[tuple[str, Callable[[], Mask | None], dict[str, Any]]]:
    """A mask, how to make it for `attend`, and what torch's kernel is given for it."""
    batch, _, size, _ = shape
    many = torch.tensor([size - (row % 4) * size // 8 if row % 2 else size for row in range(batch)])
    real = (torch.arange(size) < many[:, None])[:, None, None, :]
    back = torch.ones(size, size, dtype=torch.bool).tril()

    def added(allowed: Tensor) -> Tensor:
        return torch.zeros((), dtype=dtype).where(allowed, -torch.inf)

    flag = {"is_causal": True}
    yield "nothing", lambda: None, {"bare": {}}
    yield "causal", causal, {"is_causal": flag}
    yield "lengths", lambda: lengths(many), {"bare": {}, "added": {"attn_mask": added(real)}}
    both = {"is_causal": flag, "added": {"attn_mask": added(real & back)}}
    yield "causal & lengths", lambda: causal() & lengths(many), both
    yield "causal & lengths, a new mask", lambda: causal() & lengths(many), both


def rows_of(shape: tuple[int, ...], dtype: torch.dtype, rounds: int) -> Iterator[Row]:
    """Every mask and mode of a shape."""
    for name, make, others in cases(shape, dtype):
        for mode in MODES:
            inputs = [torch.randn(shape, dtype=dtype, requires_grad=mode != "forward") for _ in range(3)]
            query, key, value = inputs
            slope = torch.randn(shape, dtype=dtype)
            mask = make()
            shared = mask if mask is None or "new" in name else mask.shared()

            def ours() -> Tensor:
                return attend(query, key, value, make() if "new" in name else shared)  # noqa: B023

            def run(kernel: Callable[[], Tensor]) -> Run:
                if mode == "forward":  # noqa: B023
                    return kernel
                return lambda: torch.autograd.grad(kernel(), inputs, slope)  # noqa: B023

            runs = {"attend": run(ours)}
            for other, given in others.items():
                runs[other] = run(partial(F.scaled_dot_product_attention, query, key, value, **given))
            times = measure(runs, rounds)
            middle = {who: statistics.median(each) for who, each in times.items()}
            ratios = {}
            for other in others:
                each = [one / two for one, two in zip(times["attend"], times[other], strict=True)]
                ratios[other] = (statistics.median(each), *spread(each))
            yield Row(
                shape,
                str(dtype).removeprefix("torch."),
                name,
                mode,
                explain(Call(inputs[0], inputs[1], mask)).choice.kernel,
                middle.pop("attend"),
                middle,
                ratios,
            )


def table(about: dict[str, Any], rows: list[Row]) -> str:
    """All of it as Markdown."""
    lines = [
        "# `attend` beside torch's attention on a CPU",
        "",
        "Made by `python benchmarks/attend_cpu.py`, which says how. Milliseconds, medians over interleaved rounds; ratios of `attend` to",
        "torch's kernel within a round, with their tenth and ninetieth percentile. *torch* is `scaled_dot_product_attention` with no mask, or",
        "with `is_causal`, which knows no padding; *torch, mask* has both in a ready tensor that is added to the scores.",
        "",
        "; ".join(f"{what}: {value}" for what, value in about.items()) + ".",
        "",
        "| shape | dtype | mask | mode | kernel | attend, ms | over torch | over torch, mask |",
        "|---|---|---|---|---|---:|---:|---:|",
    ]
    for row in rows:
        cells = [
            f"{ratio:.2f} ({low:.2f}–{high:.2f})"
            for ratio, low, high in (row.ratios[name] for name in row.ratios)
        ]
        words = [
            "×".join(map(str, row.shape)),
            row.dtype,
            row.mask,
            row.mode,
            row.kernel,
            f"{row.attend:.2f}",
        ]
        lines.append("| " + " | ".join([*words, *cells, *[""] * (2 - len(cells))]) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, and write it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results", help="folder for the results"
    )
    options = parser.parse_args()
    torch.manual_seed(0)
    about, rows = machine(), []
    for shape in SHAPES:
        for dtype in DTYPES:
            for row in rows_of(shape, dtype, options.rounds):
                rows.append(row)
                said = " ".join(f"{name} {ratio[0]:.2f}" for name, ratio in row.ratios.items())
                print(
                    f"{shape!s:18s}{row.dtype:9s}{row.mask:29s}{row.mode:19s}{row.kernel:14s}{said}",
                    flush=True,
                )
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "attend-cpu.json"
    path.write_text(
        json.dumps({"machine": about, "rows": [asdict(row) for row in rows]}, indent=1) + "\n", "utf-8"
    )
    path.with_suffix(".md").write_text(table(about, rows), "utf-8")


if __name__ == "__main__":
    main()
