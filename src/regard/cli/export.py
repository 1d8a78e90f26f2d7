"""`regard export`: a run in the form of another library, or as a smaller run."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.texts import OwnKinds, Run, own_kinds, say

EXAMPLES = """
regard export runs/en-de --to ctranslate2 --out en-de-ct2
regard export runs/en-de --to marian --out en-de-marian
regard export runs/en-de --to int8 --out en-de-small
regard export runs/mine --to int8 --out mine-small --kind own_kind.py
"""


class Form(StrEnum):
    """What is written."""

    ctranslate2 = "ctranslate2"
    marian = "marian"
    int8 = "int8"


def export(
    run: Run,
    to: Annotated[
        Form,
        typer.Option(
            help="CTranslate2, Hugging Face's MarianMTModel, or int8: a run of ours, of any model, a quarter as large."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    kind: OwnKinds = None,
) -> None:
    """Write a Transformer for another library (settings that it lacks are named), or any run in int8."""
    from regard.runs.exporting import export_run

    export_run(run, to=to.value, out=out, kinds=own_kinds(kind))
    say(f"wrote {out}")
