"""`regard classify`: the class of a text or of a picture."""

import sys
from typing import Annotated

import typer

from regard.cli.texts import Device, Run, incoming, out_as_json

EXAMPLES = """
regard classify runs/reviews "what a film"
cat reviews.txt | regard classify runs/reviews > labels.txt
regard classify runs/reviews "what a film" --json
regard classify runs/digits seven.png two.png
"""


def classify(
    run: Run,
    texts: Annotated[
        list[str] | None,
        typer.Argument(help="Texts, or files of pictures; nothing: the lines of standard input."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The probability of every class, as JSON.")] = False,
    device: Device = None,
) -> None:
    """Name the class of texts or pictures given as arguments, or on standard input line by line."""
    from regard.cli.texts import load_as

    sorter = load_as("classify", run, device)
    name = "file" if hasattr(sorter, "images") else "text"
    for some in incoming(texts):
        for text, likely in zip(some, sorter.probabilities(some), strict=True):
            label = max(likely, key=likely.__getitem__)
            if json:
                out_as_json({name: text, "label": label, "probabilities": likely})
            elif sys.stdout.isatty():
                typer.echo(text)
                for line in bars(likely):
                    typer.echo(f"  {line}")
            else:
                typer.echo(label)


def bars(likely: dict[str, float], *, most: int = 5, length: int = 30) -> list[str]:
    """The likeliest classes, each with a bar as long as it is likely."""
    best = sorted(likely, key=likely.__getitem__, reverse=True)[:most]
    widest = max(map(len, best))
    shown = []
    for label in best:
        eighths = round(8 * length * likely[label])
        bar = "█" * (eighths // 8) + ("▏▎▍▌▋▊▉"[eighths % 8 - 1] if eighths % 8 else "")
        shown.append(f"{label:<{widest}}  {100 * likely[label]:5.1f} %  {bar}")
    return shown
