"""`regard info`: what a run is, and whether it is as training left it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.texts import OwnKinds, Run, own_kinds, say
from regard.errors import RegardError

EXAMPLES = """
regard info runs/numbers
regard info runs/numbers --verify
"""


def info(
    run: Run,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Compare every file with its digest, of SHA256SUMS or of its name."),
    ] = False,
    accept_changes: Annotated[
        bool, typer.Option("--accept-changes", help="Take all files as they are now: write SHA256SUMS anew.")
    ] = False,
    kind: OwnKinds = None,
) -> None:
    """What a run was trained on, how far it came, how good it is, and what it can do."""
    if accept_changes:
        _accept(run)
    elif verify:
        _verify(run)
    else:
        from regard.runs.describing import describe_run

        _show(describe_run(run, kinds=own_kinds(kind)))


def _accept(run: Path) -> None:
    from regard.runs.folder import RunFolder

    changed = RunFolder.existing(run).accept()
    say(f"accepted as they are now: {', '.join(changed)}" if changed else "nothing had changed")


def _verify(run: Path) -> None:
    from regard.runs.describing import verify_run

    verified = verify_run(run)
    _show(verified)
    if wrong := [f"{name} is {state}" for name, state in verified if state != "as written"]:
        raise RegardError(f"{run}: {', '.join(wrong)}")


def _show(rows: Sequence[tuple[str, str]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table.grid(padding=(0, 3, 0, 0))
    table.add_column()
    table.add_column(overflow="fold")  # a path is not cut short
    for name, value in rows:
        table.add_row(f"[dim]{escape(name)}[/]", escape(value))
    Console(highlight=False, markup=True).print(table)
