"""How things are measured: interleaved rounds for time, the allocator's own events for memory."""

import os
import platform
import random
import time
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

import torch
from torch.profiler import ProfilerActivity, profile

Run = Callable[[], object]
Clock = Callable[
    [], float
]  # seconds: time.perf_counter, or time.process_time, which others on the machine change less
Name = TypeVar("Name", bound=Hashable)


def measure(
    runs: Mapping[Name, Run], rounds: int, device: str = "cpu", *, clock: Clock = time.perf_counter
) -> dict[Name, list[float]]:
    """Milliseconds of every contender in every round; in a round each runs once, in a shuffled order."""
    return sample({name: partial(once, run, device, clock=clock) for name, run in runs.items()}, rounds)


def sample(timers: Mapping[Name, Callable[[], float]], rounds: int) -> dict[Name, list[float]]:
    """The same, of those who take their own time: each timer runs once and says how long that took."""
    for timer in timers.values() if rounds > 1 else ():  # a single round is of runs too long to be warmed up
        timer()
    times: dict[Name, list[float]] = {name: [] for name in timers}
    for _ in range(rounds):
        for name in random.sample(list(timers), len(timers)):
            times[name].append(timers[name]())
    return times


def once(run: Run, device: str = "cpu", *, clock: Clock = time.perf_counter) -> float:
    """Milliseconds of one run, until the device is done with it."""
    wait(device)
    start = clock()
    run()
    wait(device)
    return (clock() - start) * 1e3


def wait(device: str) -> None:
    """Wait until a GPU has done what it was given."""
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


def calm_run(run: Run, *, foreign: float = 0.05) -> float:
    """Milliseconds of one run that had the cores for itself, on a machine that is shared. Linux only.

    It waits until they are idle; a run during which other processes took more than the share `foreign` of them is
    thrown away and made again.
    """
    per_second = os.sysconf("SC_CLK_TCK")
    while True:
        busy, whole = _jiffies()
        time.sleep(0.4)
        if _jiffies()[0] - busy > 0.05 * (_jiffies()[1] - whole):
            continue
        (busy, whole), own, start = _jiffies(), time.process_time(), time.perf_counter()
        run()
        taken, own, (busy_after, whole_after) = (
            time.perf_counter() - start,
            time.process_time() - own,
            _jiffies(),
        )
        if busy_after - busy - own * per_second <= foreign * (whole_after - whole) + 1:
            return taken * 1e3


def _jiffies() -> tuple[int, int]:
    """How long the cores were busy, and how long they were there."""
    each = [int(part) for part in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return sum(each) - each[3] - each[4], sum(each)


def peak_megabytes(run: Run, device: str = "cpu") -> float:
    """The most that tensors held at once beyond what there was before, from the allocator's own account."""
    if device.startswith("cuda"):
        wait(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        run()
        wait(device)
        return (torch.cuda.max_memory_allocated(device) - before) / 2**20
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        run()
    events = [e for e in seen.profiler.kineto_results.events() if e.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak / 2**20


def spread(values: list[float]) -> tuple[float, float]:
    """The tenth and the ninetieth percentile."""
    ordered = sorted(values)
    return ordered[len(ordered) // 10], ordered[-1 - len(ordered) // 10]


def machine() -> dict[str, object]:
    """What the run depended on."""
    model = next((line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if "model name" in line), "")
    return {
        "cpu": model or platform.processor(),
        **({"gpu": torch.cuda.get_device_name()} if torch.cuda.is_available() else {}),
        "threads": torch.get_num_threads(),
        "load at start": load(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def load() -> float:
    """How many processes wanted a core, over the last minute."""
    return round(os.getloadavg()[0], 2)


def crowd(threads: int) -> str | None:
    """What to know before measuring where others are at work; None: the cores are free.

    Threads that wait for one another at the end of every loop lose a turn of the scheduler whenever one is put aside.
    """
    free = (os.cpu_count() or 1) - load()
    if free > threads - 0.5:
        return None
    return f"load {load()} on {os.cpu_count()} cores: figures with --threads {threads} will be off; wait, or use fewer"


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []
