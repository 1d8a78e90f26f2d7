"""What `attend` costs on the host beyond torch's own attention: microseconds and operations of a call.

    OMP_NUM_THREADS=1 python benchmarks/attend_overhead.py                 # about two minutes of one core
    OMP_NUM_THREADS=1 python benchmarks/attend_overhead.py --name before   # under another name beside what is there
    python benchmarks/attend_overhead.py --device cuda --name "on a GPU"   # the host's time, which launches and does not wait

Tensors are so small that the host's work is all there is. In every round `attend` and the bare kernel each run a few
times, in a shuffled order, and the difference is taken within the round. The bare kernel gets its mask as a finished
tensor, or as its causal flag: all that `attend` does to get there is in the difference. A mask is either made anew for
every call, as for the first layer of a model, or given again, as to the layers after it (`mask.shared()`).
"""

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from measuring import Run, machine, spread
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from regard import Mask, attend, causal, lengths, window
from regard.bench.measuring import wait

SHAPES = ((1, 1, 8, 8), (2, 4, 16, 16))  # batch, heads, positions, width
STEP = 5  # how many times more keys than queries a step of decoding has, here of one query
MODES = ("forward", "forward + backward")


@dataclass(frozen=True)
class Case:
    """A mask for `attend`, and what says the same to torch's kernel."""

    name: str
    mask: Callable[[], Mask | None]
    bare: dict[str, Any]
    queries: int | None = None  # fewer than keys, in a step of decoding


@dataclass(frozen=True)
class Row:
    """One case in one shape: microseconds, medians over rounds, and operations of a call."""

    case: str
    shape: tuple[int, ...]
    mode: str
    again: bool  # whether calls share one mask
    attend: float
    bare: float
    more: float
    spread: tuple[float, float]  # of `more`: tenth and ninetieth percentile
    operations: int  # of aten, views left out: what a GPU would be given to do, and allocations
    bare_operations: int


def cases(shape: tuple[int, ...], device: str) -> list[Case]:
    """Those of a shape."""
    batch, _, size, _ = shape
    many = torch.tensor([size - 3 * row for row in range(batch)], device=device).clamp_min(1)
    places = torch.arange(size, device=device)
    real, near = places < many[:, None], (places - places[:, None]).abs() < 3
    return [
        Case("nothing", lambda: None, {}),
        Case("causal", causal, {"is_causal": True}),
        Case("lengths", lambda: lengths(many), {"attn_mask": real[:, None, None, :]}),
        Case("causal & lengths", lambda: causal() & lengths(many), {"is_causal": True}),
        Case("window", lambda: window(3), {"attn_mask": near}),
        Case("a step", lambda: None, {}, queries=1),
        Case("a step, causal", lambda: causal(offset=STEP * size - 1), {}, queries=1),
    ]


class Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts operations that reach a device, but for views."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operations += not func.is_view
        return func(*args, **(kwargs or {}))


def counted(run: Run) -> int:
    """The operations of one run, after another: what it shares is there."""
    run()
    with Counting() as counting:
        run()
    return counting.operations


def timed(run: Run, calls: int, device: str) -> float:
    """The host's microseconds for one of a few calls."""
    wait(device)
    start = time.perf_counter_ns()
    for _ in range(calls):
        run()
    return (time.perf_counter_ns() - start) / calls / 1e3


def differences(
    ours: Run, bare: Run, rounds: int, device: str, calls: int = 5
) -> tuple[list[float], list[float]]:
    """Microseconds of both, round by round."""
    times: dict[Run, list[float]] = {ours: [], bare: []}
    for _ in range(rounds // 5):  # until both are warm
        timed(ours, calls, device), timed(bare, calls, device)
    for _ in range(rounds):
        for run in random.sample([ours, bare], 2):
            times[run].append(timed(run, calls, device))
    return times[ours], times[bare]


def backwards(run: Callable[[], Tensor], inputs: list[Tensor]) -> None:
    """A run and the gradients of its inputs."""
    output = run()
    torch.autograd.grad(output, inputs, torch.ones_like(output))


def rows_of(case: Case, shape: tuple[int, ...], rounds: int, device: str) -> list[Row]:
    """Every mode of a case, with a new mask a call and, where there is one, the same again."""
    *batch, size, width = shape
    keys = size if case.queries is None else STEP * size
    rows = []
    for mode in MODES:
        learned = mode != "forward"
        sizes = (case.queries or size, keys, keys)
        query, key, value = (
            torch.randn(*batch, each, width, device=device, requires_grad=learned) for each in sizes
        )
        mask = case.mask()
        # By now as a name: looking at a module's attribute is a cost that only one of the two would have.
        kernel, bare = F.scaled_dot_product_attention, case.bare
        made: dict[bool, Callable[[], Tensor]] = {False: lambda: attend(query, key, value, case.mask())}  # noqa: B023
        if mask is not None:
            shared = mask.shared()
            made[True] = lambda: attend(query, key, value, shared)  # noqa: B023
        for again, ours in made.items():
            theirs: Run = lambda: kernel(query, key, value, **bare)  # noqa: B023, E731
            if learned:
                inputs = [query, key, value]
                ours, theirs = partial(backwards, ours, inputs), partial(backwards, theirs, inputs)  # type: ignore[arg-type, assignment]
            times = differences(ours, theirs, rounds, device)
            more = [one - other for one, other in zip(*times, strict=True)]
            rows.append(
                Row(
                    case.name,
                    shape,
                    mode,
                    again,
                    statistics.median(times[0]),
                    statistics.median(times[1]),
                    statistics.median(more),
                    spread(more),
                    counted(ours),
                    counted(theirs),
                )
            )
    return rows


def table(runs: dict[str, Any]) -> str:
    """Every run beside the others, as Markdown."""
    about = (
        f"`{name}`: " + "; ".join(f"{what}: {value}" for what, value in run["machine"].items()) + "."
        for name, run in runs.items()
    )
    lines = [
        "# What `attend` costs on the host beyond torch's attention",
        "",
        "Made by `python benchmarks/attend_overhead.py`, which says how.",
        "",
        *(f"- {line}" for line in about),
        "",
        "Microseconds of `attend` less those of the bare kernel: median (tenth to ninetieth percentile) of the differences within",
        "interleaved rounds. A *new* mask is made in the timed call; *again* it is one that layers share, asked before. A step is one query over",
        f"{STEP} times as many keys as the shape says, which `attend` gives its own C kernel on a CPU.",
        "",
        "| shape | mask | mode | " + " | ".join(f"{name}, µs more" for name in runs) + " |",
        "|---|---|---|" + "---:|" * len(runs),
    ]
    cells = {
        name: {(tuple(row["shape"]), row["case"], row["again"], row["mode"]): row for row in run["rows"]}
        for name, run in runs.items()
    }
    for at in dict.fromkeys(at for rows in cells.values() for at in rows):
        shape, case, again, mode = at
        words = [" × ".join(map(str, shape)), _titled(case, again, cells), mode]
        words += ["" if at not in rows else _more(rows[at]) for rows in cells.values()]
        lines.append("| " + " | ".join(words) + " |")
    lines += [
        "",
        "Operations of aten in one call, without views. On a GPU each is a kernel to launch, but for a few that only allocate.",
        "",
        "| mask | mode | bare kernel | " + " | ".join(runs) + " |",
        "|---|---|---:|" + "---:|" * len(runs),
    ]
    for at in dict.fromkeys(at for rows in cells.values() for at in rows):
        shape, case, again, mode = at
        if shape == SHAPES[-1]:
            found = [rows[at] for rows in cells.values() if at in rows]
            words = [_titled(case, again, cells), mode, str(found[-1]["bare_operations"])]
            words += ["" if at not in rows else str(rows[at]["operations"]) for rows in cells.values()]
            lines.append("| " + " | ".join(words) + " |")
    return "\n".join(lines) + "\n"


def _titled(case: str, again: bool, cells: dict[str, Any]) -> str:
    masked = any(name == case and twice for rows in cells.values() for _, name, twice, _ in rows)
    return f"{case}, {'again' if again else 'new'}" if masked else case


def _more(row: dict[str, Any]) -> str:
    return f"{row['more']:.1f} ({row['spread'][0]:.1f}–{row['spread'][1]:.1f})"


def main() -> None:
    """Measure, and write it beside what was measured before."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--name", default="now", help="what to call this run; one of the same name is replaced"
    )
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results", help="folder for the results"
    )
    options = parser.parse_args()
    torch.manual_seed(0)
    random.seed(0)
    about, rows = machine(), []
    for shape in SHAPES:
        for case in cases(shape, options.device):
            for row in rows_of(case, shape, options.rounds, options.device):
                rows.append(row)
                print(
                    f"{shape!s:16s} {row.case:18s}{'again' if row.again else 'new':7s}{row.mode:20s}", end=""
                )
                print(f"{row.attend:8.1f} − {row.bare:6.1f} = {_more(asdict(row))}", end="")
                print(f"   {row.operations} operations, {row.bare_operations}", flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "attend-overhead.json"
    runs = json.loads(path.read_text("utf-8")) if path.exists() else {}
    runs[options.name] = {"machine": about, "rows": [asdict(row) for row in rows]}
    path.write_text(json.dumps(runs, indent=1) + "\n", "utf-8")
    path.with_suffix(".md").write_text(table(runs), "utf-8")


if __name__ == "__main__":
    main()
