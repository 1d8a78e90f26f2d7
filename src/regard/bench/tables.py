"""A table of what was measured: for the terminal, and as Markdown."""

from regard.sight.pictures.text_table import TextTable


class Table(TextTable):
    """A table of texts that can be written as Markdown too."""

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
