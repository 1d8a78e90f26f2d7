"""`regard classify`: the class of a text, a picture, a recording, or of two senses together."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.texts import (
    Device,
    OwnKinds,
    Run,
    WithReport,
    incoming,
    load_as,
    only_one,
    out_as_json,
    pairs,
    say,
)

if TYPE_CHECKING:
    from regard.runs.answering import Labeller

EXAMPLES = """
regard classify runs/reviews "what a film"
cat reviews.txt | regard classify runs/reviews > labels.txt
regard classify runs/reviews "what a film" --json
regard classify runs/digits seven.png two.png
regard classify runs/digits seven.png --picture looked.png
regard classify runs/spoken-digits seven.wav
regard classify runs/same-digit seven.png seven.wav
regard classify runs/counter "1 7 2 0 2 1 3 4 8 6"
regard classify runs/spoken-place seven.wav "two nine seven one" --picture looked.png
"""


def classify(
    run: Run,
    texts: Annotated[
        list[str] | None,
        typer.Argument(
            help="Texts, or files of pictures or recordings; nothing: the lines of standard input. "
            "Two senses: a picture and a recording, or a recording and a text, again and again."
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Classes shown in the terminal.")] = 5,
    json: Annotated[bool, typer.Option("--json", help="The probability of every class, as JSON.")] = False,
    picture: Annotated[
        Path | None, typer.Option(help="Draw where the model looked (.png or .svg); for one file.")
    ] = None,
    report: WithReport = False,
    device: Device = None,
    kind: OwnKinds = None,
) -> None:
    """Name the class of texts, pictures or recordings given as arguments, or on standard input line by line.

    In a terminal the likeliest classes are shown with bars; elsewhere the likeliest alone is printed.
    """
    labeller: Labeller = load_as("classify", run, device, kinds=kind, report=report)
    what, second = labeller.reader.what, getattr(getattr(labeller.reader, "second", None), "what", "")
    if picture is not None:
        only_one(texts, 2 if what == "pair" else 1)
    for some in incoming(texts):
        inputs = pairs(some) if what == "pair" else some
        for given, likely in zip(inputs, labeller.probabilities(inputs), strict=True):
            label = max(likely, key=likely.__getitem__)
            if json:
                kinds = {"text": "text", "row": "digits", "pair": "pair" if second == "text" else "files"}
                name = kinds.get(what, "file")
                out_as_json({name: given, "label": label, "probabilities": likely})
            elif sys.stdout.isatty():
                typer.echo(given if isinstance(given, str) else " ".join(given))
                for line in bars(likely, most=top):
                    typer.echo(f"  {line}")
            else:
                typer.echo(label)
            if picture is not None:
                from regard.sight.media_pictures import picture_of_class

                drawn = picture_of_class(labeller, given, title=f"{label}, {likely[label]:.1%}")
                drawn.write(picture)
                say(f"wrote {picture}")


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
