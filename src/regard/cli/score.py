"""`regard score`: how likely a model finds given translations or texts."""

from typing import Annotated

import typer

from regard.cli.texts import Device, OwnKinds, Run, WithReport, incoming, load_as, out_as_json
from regard.errors import RegardError

EXAMPLES = """
regard score runs/numbers "two" "deux"
regard score runs/read-digits strip.png "quarante-deux"
paste sources.txt targets.txt | regard score runs/numbers
cut -f1 book.tsv | regard score runs/shakespeare --json
"""


def score(
    run: Run,
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            help="Source and target (a text alone for a language model); nothing: lines of standard input, source and target separated by a tab."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    report: WithReport = False,
    device: Device = None,
    kind: OwnKinds = None,
) -> None:
    """The log-probability (natural logarithm) of a target given its source, or of a text."""
    scorer = load_as("score", run, device, kinds=kind, report=report)
    pairs = "generate" not in scorer.verbs
    if texts and pairs:
        if len(texts) != 2:
            raise RegardError(f"give a source and a target; {len(texts)} texts were given")
        texts = ["\t".join(texts)]
    for some in incoming(texts):
        if pairs:
            split = [line.split("\t") for line in some]
            wrong = next((line for line, parts in zip(some, split, strict=True) if len(parts) != 2), None)
            if wrong is not None:
                raise RegardError(f"{wrong[:60]!r}: a source, one tab and a target are wanted")
            sources, targets = ([parts[side] for parts in split] for side in (0, 1))
            logprobs = scorer.score(sources, targets)
            rows = [{"source": s, "target": t} for s, t in zip(sources, targets, strict=True)]
        else:
            logprobs, rows = scorer.score(some), [{"text": text} for text in some]
        for row, logprob in zip(rows, logprobs, strict=True):
            if json:
                out_as_json({**row, "log_probability": logprob})
            else:
                typer.echo(f"{logprob:.4f}")
