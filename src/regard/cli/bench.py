"""`regard bench`: regard beside other libraries, on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.texts import Threads, quiet_profiler, say

EXAMPLES = """
regard bench --quick
regard bench attention training
regard bench decoding --threads 2 --repeats 9
regard bench --gpu --out bench-gpu
"""


def bench(
    suites: Annotated[
        list[str] | None,
        typer.Argument(help="Some of attention, training, decoding. Default: all.", show_default=False),
    ] = None,
    gpu: Annotated[bool, typer.Option("--gpu", help="On the GPU.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller models, fewer tasks, three rounds: two minutes.")
    ] = False,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Interleaved rounds. Default: 7.", show_default=False)
    ] = None,
    threads: Threads = None,
    out: Annotated[
        Path, typer.Option(help="The folder for bench.json, bench.md and a picture a suite.")
    ] = Path("bench"),
) -> None:
    """Time, memory and answers of regard and of the peers that are installed, side by side in one run."""
    quiet_profiler()
    from rich.console import Console

    from regard.bench.measuring import crowd
    from regard.bench.peers import missing
    from regard.bench.record import begin
    from regard.bench.suites import check_suites, record_of, run_suite, table_of

    names = check_suites(suites or [])
    device = "cuda" if gpu else "cpu"
    rounds = repeats or (3 if quick else 7)
    setting, about = begin(out, device=device, threads=threads, rounds=rounds, quick=quick)
    if crowded := crowd(setting.threads):
        say(crowded)
    if absent := missing():
        say(absent)
    console, found = Console(highlight=False), {}
    for name in names:
        say(f"{name} …")
        found[name] = run_suite(name, setting)
        console.print(table_of(name, found[name]).terminal())
        record = record_of(found, about)
        files = record.write(out)  # after each: what was measured is not lost if the next is interrupted
    for line in (*record.notes, record.depended()):
        console.print(line, style="dim", markup=False)
    say(f"wrote {', '.join(map(str, files))}")
