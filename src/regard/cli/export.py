"""`regard export`: a run in the form of another library."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.texts import Run, say

EXAMPLES = """
regard export runs/en-de --to ctranslate2 --out en-de-ct2
regard export runs/en-de --to marian --out en-de-marian
"""


class Library(StrEnum):
    """Who is to read it."""

    ctranslate2 = "ctranslate2"
    marian = "marian"


def export(
    run: Run,
    to: Annotated[Library, typer.Option(help="CTranslate2, or Hugging Face's MarianMTModel.")],
    out: Annotated[Path, typer.Option(help="The folder to write.")],
) -> None:
    """Write the weights of a Transformer for another library; settings that it lacks are named."""
    from regard.runs.exporting import export_run

    export_run(run, to=to.value, out=out)
    say(f"wrote {out}")
