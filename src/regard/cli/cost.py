"""`regard cost`: what each kind of layer costs as sequences grow."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.texts import Threads, quiet_profiler, say
from regard.errors import RegardError

EXAMPLES = """
regard cost
regard cost --quick
regard cost --layers self-attention,window --lengths 1024,2048,4096,8192,16384 --width 64
regard cost --backward --out cost-of-training
regard cost --csv > cost.csv
regard cost --device cuda --lengths 1024,4096,16384,65536
"""
LENGTHS, QUICK = (256, 512, 1024, 2048, 4096, 8192), (128, 256, 512, 1024)


def cost(
    layers: Annotated[
        str | None,
        typer.Option(
            help="Some of self-attention, written out, window, recurrent, convolution, dense over positions, feed-forward, with commas. Default: all.",
            show_default=False,
        ),
    ] = None,
    lengths: Annotated[
        str | None,
        typer.Option(
            help=f"Positions, with commas. Default: {LENGTHS[0]}, {LENGTHS[1]} … {LENGTHS[-1]}.",
            show_default=False,
        ),
    ] = None,
    width: Annotated[int, typer.Option(min=1, help="Features of each position.")] = 256,
    backward: Annotated[
        bool, typer.Option("--backward", help="With the gradients of input and weights.")
    ] = False,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Interleaved rounds. Default: 5.", show_default=False)
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help=f"Lengths up to {QUICK[-1]}, three rounds: some seconds.")
    ] = False,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1 …")] = "cpu",
    threads: Threads = None,
    out: Annotated[Path, typer.Option(help="The folder for cost.png, .svg, .csv, .json and .md.")] = Path(
        "cost"
    ),
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV in place of the tables.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON in place of the tables.")] = False,
) -> None:
    """What attention, recurrence, convolution and dense maps cost as sequences grow: time, memory and parameters, beside theory."""
    if csv and json:
        raise RegardError("--csv and --json: choose one; both are written to the folder of --out")
    sizes = (QUICK if quick else LENGTHS) if lengths is None else [_length(part) for part in _parts(lengths)]
    quiet_profiler()
    from rich.console import Console

    from regard.bench.cost import fitting, measure_costs
    from regard.bench.cost_record import as_csv, record_of, tables
    from regard.bench.layers import choose_kinds
    from regard.bench.measuring import crowd
    from regard.bench.record import begin

    kinds = choose_kinds(None if layers is None else _parts(layers))
    fitting(kinds, sizes, width)  # or refuse before anything is written
    rounds = repeats or (3 if quick else 5)
    setting, about = begin(out, device=device, threads=threads, rounds=rounds, quick=quick)
    if crowded := crowd(setting.threads):
        say(crowded)
    say(f"{len(kinds)} layers at {len(set(sizes))} lengths, {rounds} rounds …")
    found = measure_costs(kinds, sizes, width=width, setting=setting, backward=backward)
    record = record_of(found, kinds, about)
    files = record.write(out)
    if csv or json:
        typer.echo(as_csv(found) if csv else record.json(), nl=False)
    else:
        console = Console(highlight=False)
        for table in tables(found):
            console.print(table.terminal())
        for line in (*record.notes, record.depended()):
            console.print(line, style="dim", markup=False)
    say(f"wrote {', '.join(map(str, files))}")


def _parts(given: str) -> list[str]:
    return [part.strip() for part in given.split(",") if part.strip()]


def _length(part: str) -> int:
    if not part.isdecimal() or int(part) < 1:
        raise RegardError(
            f"--lengths: {part!r} is no length; give whole numbers from 1 on, such as 512,1024,2048"
        )
    return int(part)
