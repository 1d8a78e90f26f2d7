"""`regard evaluate`: how good a run is."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli.texts import (
    Compile,
    Device,
    OwnKinds,
    Precision,
    Run,
    Threads,
    WithReport,
    own_kinds,
    say,
    tell_optimised,
)

EXAMPLES = """
regard evaluate runs/numbers
regard evaluate runs/en-de --on held-out.tsv --beam 5
regard evaluate runs/en-de --on test.en,test.de --json
regard evaluate runs/en-de --on pairs.csv --columns english,german
regard evaluate runs/shakespeare --on sonnets.txt
"""


def evaluate(
    run: Run,
    on: Annotated[
        str | None,
        typer.Option(
            help="A file like those trained on (two parallel ones as SOURCE,TARGET). Default: the run's own test set.",
            show_default=False,
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="The columns of --on to read, by name or number: english,french or 2,3. Default: those trained on.",
            show_default=False,
        ),
    ] = None,
    beam: Annotated[int | None, typer.Option(min=1, help="Hypotheses kept.", show_default=False)] = None,
    bleu: Annotated[
        str | None, typer.Option(help="sacrebleu's tokenisation: 13a, none, intl, char.", show_default=False)
    ] = None,
    answers: Annotated[
        Path | None, typer.Option(help="Write source, reference and answer as TSV.", show_default=False)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="As JSON, with signatures.")] = False,
    precision: Precision = None,
    threads: Threads = None,
    compile: Compile = False,
    report: WithReport = False,
    device: Device = None,
    kind: OwnKinds = None,
) -> None:
    """BLEU, chrF and exact match; word and character error rates; accuracy; loss and perplexity: whatever the run is about."""
    import json as writing

    from regard.runs.evaluation import evaluate_run

    changes: dict[str, Any] = {
        name: value for name, value in (("beam", beam), ("bleu", bleu)) if value is not None
    }
    metrics = evaluate_run(
        run,
        on=on,
        columns=None if columns is None else [_column(each) for each in columns.split(",")],
        device=device,
        precision=precision,
        threads=threads,
        answers=answers,
        say=say,
        on_load=partial(tell_optimised, report=report),
        kinds=own_kinds(kind),
        **changes,
    )
    if json:
        typer.echo(writing.dumps([vars(metric) for metric in metrics], ensure_ascii=False))
        return
    for metric in metrics:
        typer.echo(str(metric))
    if answers is not None:
        say(f"wrote {answers}")


def _column(given: str) -> str | int:
    return int(given) if given.strip().isdecimal() else given.strip()
