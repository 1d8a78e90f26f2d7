"""`regard caption` and `regard transcribe`: what is in a picture, and what was said."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.texts import (
    Device,
    OwnKinds,
    Precision,
    Run,
    Threads,
    incoming,
    one_line,
    only_one,
    out_as_json,
    say,
)

if TYPE_CHECKING:
    from regard.runs.answering import MediaDescriber

CAPTION_EXAMPLES = """
regard caption runs/read-digits strip.png
regard caption runs/photos holiday/*.jpg --beam 5 --json
regard caption runs/read-digits strip.png --picture looked.png
"""
TRANSCRIBE_EXAMPLES = """
regard transcribe runs/spoken-words hello.wav
ls recordings/*.wav | regard transcribe runs/spoken-words > said.txt
regard transcribe runs/spoken-words hello.wav --picture heard.png
"""

Pictures = Annotated[
    list[str] | None,
    typer.Argument(help="Pictures, PNG or JPEG; nothing: their names on standard input, line by line."),
]
Recordings = Annotated[
    list[str] | None,
    typer.Argument(help="Recordings, WAV; nothing: their names on standard input, line by line."),
]
Beam = Annotated[
    int | None,
    typer.Option(min=1, help="Hypotheses kept; 1 is greedy. Default: as the run was trained for."),
]
NBest = Annotated[
    int, typer.Option(min=1, help="Texts for each file, best first, each with what it is ranked by.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a file.")]
Drawing = Annotated[
    Path | None,
    typer.Option("--picture", help="Draw where each word was found (.png or .svg); for one file."),
]


def caption(
    run: Run,
    files: Pictures = None,
    beam: Beam = None,
    n_best: NBest = 1,
    json: AsJson = False,
    picture: Drawing = None,
    precision: Precision = None,
    threads: Threads = None,
    device: Device = None,
    kind: OwnKinds = None,
) -> None:
    """Say what is in pictures."""
    _describe("caption", run, files, beam, n_best, json, picture, device, precision, threads, kind)


def transcribe(
    run: Run,
    files: Recordings = None,
    beam: Beam = None,
    n_best: NBest = 1,
    json: AsJson = False,
    picture: Drawing = None,
    precision: Precision = None,
    threads: Threads = None,
    device: Device = None,
    kind: OwnKinds = None,
) -> None:
    """Write down what is said in recordings."""
    _describe("transcribe", run, files, beam, n_best, json, picture, device, precision, threads, kind)


def _describe(
    verb: str,
    run: Path,
    files: list[str] | None,
    beam: int | None,
    n_best: int,
    json: bool,
    picture: Path | None,
    device: str | None,
    precision: str | None,
    threads: int | None,
    kind: list[str] | None,
) -> None:
    from regard.cli.texts import load_as

    describer: MediaDescriber = load_as(verb, run, device, precision, threads, kinds=kind)
    changes = {} if beam is None else {"beam": beam}
    if picture is not None:
        only_one(files)
    for some in incoming(files):
        for file, best in zip(some, describer.hypotheses(some, count=n_best, **changes), strict=True):
            if json:
                texts = [
                    {"text": one.text, "ranking": one.ranking, "log_probability": one.log_probability}
                    for one in best
                ]
                out_as_json({"file": file, "texts": texts})
            else:
                for one in best:
                    typer.echo(
                        one_line(one.text) if n_best == 1 else f"{one.ranking:.4f}\t{one_line(one.text)}"
                    )
            if picture is not None:
                from regard.sight.media_pictures import picture_of_words

                picture_of_words(describer, file, best[0].text, title=one_line(best[0].text)).write(picture)
                say(f"wrote {picture}")
