"""Pictures beside one another in a terminal, as far as there is room."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.table import Table

_APART = 2  # columns between two pictures


@dataclass(frozen=True)
class TerminalGrid:
    """Rows of pictures: beside one another where the console is wide enough for all of a row, else one after another."""

    rows: Sequence[Sequence[RenderableType]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        for row in self.rows:
            widths = [Measurement.get(console, options, part).maximum for part in row]
            if len(row) > 1 and sum(widths) + _APART * (len(row) - 1) <= options.max_width:
                table = Table.grid(padding=(0, _APART, 0, 0), pad_edge=False)
                for width in widths:
                    table.add_column(width=width)
                table.add_row(*row)
                yield table
            else:
                yield from row
