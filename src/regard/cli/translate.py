"""`regard translate`: sentences in, translations out, and where the model looked."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.texts import (
    Beam,
    Compile,
    Device,
    OwnKinds,
    Precision,
    Run,
    Threads,
    WithReport,
    incoming,
    load_as,
    only_one,
    out_answers,
    say,
)

if TYPE_CHECKING:
    from regard.runs.answering import Translator

EXAMPLES = """
regard translate french "Where is the station?"
regard translate runs/numbers "two hundred and one"
cat sentences.txt | regard translate runs/en-de --beam 5 > translations.txt
regard translate runs/en-de "Two dogs play." --n-best 3
cat sentences.txt | regard translate runs/en-de --precision int8 --threads 2
regard translate runs/en-de "Two dogs play." --picture looked.png
"""


def translate(
    run: Run,
    texts: Annotated[
        list[str] | None, typer.Argument(help="What to translate; nothing: the lines of standard input.")
    ] = None,
    beam: Beam = None,
    penalty: Annotated[float | None, typer.Option(help="Length penalty of the beam.")] = None,
    n_best: Annotated[
        int,
        typer.Option(min=1, help="Translations of each text, best first, each with what it is ranked by."),
    ] = 1,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a text.")] = False,
    picture: Annotated[
        Path | None, typer.Option(help="Draw where the model looked (.png or .svg); for one text.")
    ] = None,
    precision: Precision = None,
    threads: Threads = None,
    compile: Compile = False,
    report: WithReport = False,
    device: Device = None,
    kind: OwnKinds = None,
) -> None:
    """Translate texts given as arguments, or standard input line by line."""
    translator: Translator = load_as("translate", run, device, precision, threads, kind, report)
    changes = {name: value for name, value in (("beam", beam), ("penalty", penalty)) if value is not None}
    if picture is not None:
        only_one(texts)
    for some in incoming(texts):
        for text, best in zip(some, translator.hypotheses(some, count=n_best, **changes), strict=True):
            out_answers({"source": text}, best, called="translations", count=n_best, as_json=json)
            if picture is not None:
                from regard.sight.translation_picture import picture_of

                picture_of(translator, text, best[0].text).write(picture)
                say(f"wrote {picture}")
