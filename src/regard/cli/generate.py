"""`regard generate`: a language model goes on from a prompt."""

import sys
from typing import Annotated

import typer

from regard.cli.texts import (
    Compile,
    Device,
    OwnKinds,
    Precision,
    Run,
    Threads,
    WithReport,
    load_as,
    out_as_json,
)

EXAMPLES = """
regard generate runs/shakespeare
regard generate runs/shakespeare "ROMEO:" --tokens 300
regard generate runs/shakespeare "ROMEO:" --temperature 0 --count 1
regard generate runs/shakespeare "ROMEO:" --count 3 --seed 7 --json
"""


def generate(
    run: Run,
    prompt: Annotated[str, typer.Argument(help="What to go on from.")] = "",
    tokens: Annotated[int | None, typer.Option(min=1, help="Most tokens to add.", show_default=False)] = None,
    temperature: Annotated[
        float | None,
        typer.Option(min=0.0, help="0 takes the likeliest, 1 draws as the model says.", show_default=False),
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(min=0, help="Draw from this many likeliest; 0: all.", show_default=False)
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(help="Draw from the likeliest that hold this much probability.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same text.")] = 0,
    count: Annotated[int, typer.Option(min=1, help="Texts to write.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a text.")] = False,
    precision: Precision = None,
    threads: Threads = None,
    compile: Compile = False,
    report: WithReport = False,
    device: Device = None,
    kind: OwnKinds = None,
) -> None:
    """Continue a text. A single continuation is printed while it is sampled."""
    generator = load_as("generate", run, device, precision, threads, kind, report)
    given = {"tokens": tokens, "temperature": temperature, "top_k": top_k, "top_p": top_p}
    changes = {name: value for name, value in given.items() if value is not None}
    if count == 1 and not json:
        sys.stdout.write(prompt)
        for piece in generator.stream(prompt, seed=seed, **changes):
            sys.stdout.write(piece)
            sys.stdout.flush()
        sys.stdout.write("\n")
        return
    for text in generator.generate([prompt] * count, seed=seed, **changes):
        if json:
            out_as_json({"prompt": prompt, "text": text})
        else:
            typer.echo(prompt + text + "\n")
