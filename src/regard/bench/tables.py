"""A table of what was measured: for the terminal, and as Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.table import Table as RichTable


@dataclass(frozen=True, kw_only=True)
class Table:
    """Headings and rows of text. The first `names` columns are words, on the left; the others numbers, on the right."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int = 1

    def terminal(self) -> "RichTable":
        """For a rich console."""
        from rich import box
        from rich.markup import escape
        from rich.table import Table as RichTable

        table = RichTable(
            title=escape(self.title),
            title_justify="left",
            title_style="bold",
            box=box.SIMPLE_HEAD,
            padding=(0, 0, 0, 1),
            pad_edge=False,
        )
        for number, column in enumerate(self.columns):
            side: Literal["left", "right"] = "left" if number < self.names else "right"
            table.add_column(escape(column), justify=side, no_wrap=number > 0)
        for row in self.rows:
            table.add_row(*map(escape, row))
        return table

    def markdown(self) -> str:
        """As GitHub shows it."""
        marks = ["---" if number < self.names else "---:" for number in range(len(self.columns))]
        lines = [f"## {self.title}", ""]
        lines += ["| " + " | ".join(row) + " |" for row in (self.columns, marks, *self.rows)]
        return "\n".join(lines) + "\n"


def middle(value: float, ends: tuple[float, float]) -> str:
    """A median and its spread, to three digits."""
    return f"{short(value)} ({short(ends[0])}–{short(ends[1])})"


def near(value: float, ends: tuple[float, float]) -> str:
    """The same in less room: ± half of the spread."""
    return f"{short(value)}±{50 * (ends[1] - ends[0]) / value:.0f}%"


def short(value: float) -> str:
    """A positive number to about three digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
