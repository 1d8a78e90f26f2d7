"""`regard caption` and `regard transcribe`: what is in a picture, and what was said."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.texts import (
    Beam,
    Device,
    OwnKinds,
    Precision,
    Run,
    Threads,
    WithReport,
    incoming,
    load_as,
    one_line,
    only_one,
    out_answers,
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
NBest = Annotated[
    int, typer.Option(min=1, help="Texts for each file, best first, each with what it is ranked by.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a file.")]
Drawing = Annotated[
    Path | None,
    typer.Option("--picture", help="Draw where each word was found (.png or .svg); for one file."),
]


def _describing(verb: str, about: str, kind_of_files: Any) -> Callable[..., None]:
    """A verb that gives the texts for files: both have the same options."""

    def describe(
        run: Run,
        files: list[str] | None = None,
        beam: Beam = None,
        n_best: NBest = 1,
        json: AsJson = False,
        picture: Drawing = None,
        precision: Precision = None,
        threads: Threads = None,
        report: WithReport = False,
        device: Device = None,
        kind: OwnKinds = None,
    ) -> None:
        describer: MediaDescriber = load_as(verb, run, device, precision, threads, kind, report)
        changes = {} if beam is None else {"beam": beam}
        if picture is not None:
            only_one(files)
        for some in incoming(files):
            for file, best in zip(some, describer.hypotheses(some, count=n_best, **changes), strict=True):
                out_answers({"file": file}, best, called="texts", count=n_best, as_json=json)
                if picture is not None:
                    from regard.sight.media_pictures import picture_of_words

                    text = best[0].text
                    picture_of_words(describer, file, text, title=one_line(text)).write(picture)
                    say(f"wrote {picture}")

    describe.__name__, describe.__doc__ = verb, about
    describe.__annotations__["files"] = kind_of_files  # their help differs
    return describe


caption = _describing("caption", "Say what is in pictures.", Pictures)
transcribe = _describing("transcribe", "Write down what is said in recordings.", Recordings)
