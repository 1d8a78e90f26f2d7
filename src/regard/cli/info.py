"""`regard info`: what a run is."""

from regard.cli.texts import Run

EXAMPLES = """
regard info runs/numbers
"""


def info(run: Run) -> None:
    """What a run was trained on, how far it came, how good it is, and what it can do."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from regard.runs.describing import describe_run

    table = Table.grid(padding=(0, 3, 0, 0))
    table.add_column()
    table.add_column(overflow="fold")  # a path is not cut short
    for name, value in describe_run(run):
        table.add_row(f"[dim]{name}[/]", escape(value))
    Console(highlight=False, markup=True).print(table)
