"""`regard classify`: the class of a text."""

from typing import Annotated

import typer

from regard.cli.texts import Device, Run, incoming, out_as_json

EXAMPLES = """
regard classify runs/reviews "what a film"
cat reviews.txt | regard classify runs/reviews > labels.txt
regard classify runs/reviews "what a film" --json
"""


def classify(
    run: Run,
    texts: Annotated[
        list[str] | None, typer.Argument(help="What to classify; nothing: the lines of standard input.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The probability of every class, as JSON.")] = False,
    device: Device = None,
) -> None:
    """Name the class of texts given as arguments, or of standard input line by line."""
    from regard.cli.texts import load_as

    sorter = load_as("classify", run, device)
    for some in incoming(texts):
        for text, likely in zip(some, sorter.probabilities(some), strict=True):
            label = max(likely, key=likely.__getitem__)
            if json:
                out_as_json({"text": text, "label": label, "probabilities": likely})
            else:
                typer.echo(label)
