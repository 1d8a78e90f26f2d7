"""`regard recipes`: the experiments that come with the library."""

from typing import Annotated

import typer

from regard.cli.texts import recipe_names

EXAMPLES = """
regard recipes
regard recipes numbers
regard recipes numbers > mine.yaml
"""


def recipes(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Print this one, to read or to start your own from.", autocompletion=recipe_names
        ),
    ] = None,
) -> None:
    """List the recipes, or print one."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from regard.runs.recipe import parse, shipped, text_of

    if name is not None:
        typer.echo(text_of(name)[0], nl=False)
        return
    table = Table.grid(padding=(0, 3, 0, 0))
    for each, text in shipped().items():
        table.add_row(f"[bold]{each}[/]", escape(str(parse(text, each).get("about", ""))))
    Console(highlight=False).print(table)
