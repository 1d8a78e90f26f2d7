"""Tables of text: every cell is drawn, words on the left and numbers on the right of their columns."""

import pytest
from rich.console import Console

from regard import RegardError
from regard.sight.pictures.scene import Label
from regard.sight.pictures.text_table import TextTable

TABLE = TextTable(
    columns=("layer", "ms"), rows=[["recurrent", "4.68"], ["a", "12.345"]], title="Costs", note="d = 8"
)


def test_words_begin_and_numbers_end_in_line():
    labels = {mark.text: mark for mark in TABLE.scene().marks if isinstance(mark, Label)}
    assert {"Costs", "d = 8", "layer", "ms", "recurrent", "4.68", "a", "12.345"} == set(labels)
    assert labels["layer"].x == labels["recurrent"].x == labels["a"].x
    assert labels["ms"].x == labels["4.68"].x == labels["12.345"].x
    assert [labels[text].anchor for text in ("a", "12.345")] == ["left", "right"]
    assert labels["layer"].y < labels["recurrent"].y == labels["4.68"].y < labels["a"].y
    assert all(0 < label.x <= TABLE.scene().width for label in labels.values())


def test_a_terminal_shows_the_same():
    console = Console(width=60, record=True)
    console.print(TABLE.terminal())
    lines = console.export_text().splitlines()
    assert "Costs · d = 8" in lines[0]
    assert [line.split() for line in lines if "4.68" in line or "12.345" in line] == [
        ["recurrent", "4.68"],
        ["a", "12.345"],
    ]


@pytest.mark.parametrize(("columns", "rows"), [((), []), (("a", "b"), [["1"]])])
def test_a_row_has_a_text_for_every_column(columns, rows):
    with pytest.raises(RegardError, match="a text for every column"):
        TextTable(columns=columns, rows=rows)
