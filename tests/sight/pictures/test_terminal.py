import io
import re

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from regard.sight.pictures.colours import HATCH, colour
from regard.sight.pictures.heatmap import heatmap

WORDS = ["who", "watches", "the", "watchmen"]
WEIGHTS = np.array([[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [0.25, 0.25, 0.5, 0], [0.25, 0, 0, 0.75]])


def printed(renderable, *, width=80, system=None, **options):
    file = io.StringIO()
    console = Console(
        file=file, width=width, color_system=system, force_terminal=system is not None, **options
    )
    console.print(renderable)
    return file.getvalue()


def backgrounds(line):
    return re.findall(r"48;2;(\d+);(\d+);(\d+)m( *)", line)


def test_without_colour_weights_are_shading_characters():
    lines = printed(heatmap(WEIGHTS, WORDS, WORDS).terminal()).splitlines()
    assert lines[-5:-1] == [
        "     who ██      ",
        " watches ▒▒▒▒    ",
        "     the ░░░░▒▒  ",
        "watchmen ░░    ▓▓",
    ]
    assert lines[-1].split() == ["0", "░▒▓█", "1"]
    assert "\x1b" not in "".join(lines)


def test_keys_are_written_downwards_above_their_column():
    lines = printed(heatmap(WEIGHTS, WORDS, WORDS).terminal()).splitlines()[:-5]
    columns = ["".join(line.ljust(40)[9 + 2 * key] for line in lines).strip() for key in range(4)]
    assert columns == WORDS


def test_with_colour_each_cell_has_the_background_of_its_weight():
    output = printed(heatmap(WEIGHTS, WORDS, WORDS).terminal(), system="truecolor").splitlines()
    for row, line in zip(WEIGHTS, output[-5:-1], strict=True):
        cells = [tuple(map(int, found[:3])) for found in backgrounds(line)]
        assert cells == [colour(weight) for weight in row]


def test_compact_puts_two_queries_on_a_line():
    output = printed(heatmap(WEIGHTS[:3], WORDS[:3], WORDS).terminal(compact=True), system="truecolor")
    pairs = re.findall(r"38;2;(\d+);(\d+);(\d+)(?:;48;2;(\d+);(\d+);(\d+))?m▀", output)
    assert len(pairs) == 8
    assert tuple(map(int, pairs[1][:3])) == colour(WEIGHTS[0, 1])
    assert tuple(map(int, pairs[1][3:])) == colour(WEIGHTS[1, 1])
    assert tuple(map(int, pairs[4][:3])) == colour(WEIGHTS[2, 0])
    assert pairs[4][3:] == ("", "", "")  # the third query has no partner below


def test_hidden_cells_are_told_apart_from_small_weights():
    allowed = np.tri(4, dtype=bool)
    picture = heatmap(WEIGHTS, WORDS, WORDS, allowed=allowed)
    bare = printed(picture.terminal()).splitlines()
    assert bare[-5:-1] == ["     who ██······", " watches ▒▒▒▒····", "     the ░░░░▒▒··", "watchmen ░░    ▓▓"]
    assert "may not look" in bare[-1]
    assert printed(picture.terminal(), system="truecolor").count("╱" * 2) == 6 + 1
    assert ";".join(map(str, HATCH)) in printed(picture.terminal(compact=True), system="truecolor")


@pytest.mark.parametrize("options", [{"system": "standard"}, {"system": "truecolor", "no_color": True}])
def test_few_colours_or_none_wanted_means_shading(options):
    output = printed(heatmap(WEIGHTS, WORDS, WORDS).terminal(), **options)
    assert "████" not in output
    assert " watches ▒▒▒▒" in output
    assert "48;" not in output


@pytest.mark.parametrize("width", [40, 80, 132])
@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("system", [None, "truecolor"])
def test_any_number_of_keys_fits_the_console(width, compact, system):
    words = [f"word{number}" for number in range(200)]
    picture = heatmap(np.eye(200), words, words)
    output = re.sub(
        r"\x1b\[[\d;]*m", "", printed(picture.terminal(compact=compact), width=width, system=system)
    )
    assert max(cell_len(line) for line in output.splitlines()) <= width
    if not compact:
        assert all(word in output for word in words)
        assert f"one column = {-(-200 // (width - 8))} keys" in output


def test_a_peak_is_not_lost_when_neighbours_are_shown_as_one():
    weights = np.zeros((1, 1000))
    weights[0, 777] = 1.0
    line = printed(heatmap(weights, ["q"], ["k"] * 1000).terminal(), width=60).splitlines()[1]
    assert line.count("█") == 1


def test_wide_letters_keep_the_columns_aligned():
    words = ["日本語", "😀", "é", "\x1b[31m"]
    lines = printed(heatmap(np.eye(4), words, words).terminal()).splitlines()
    assert [cell_len(line[: line.index("█")]) for line in lines[-5:-1]] == [7, 9, 11, 13]
    assert "␛[31m" in lines[-2]
    assert "\x1b" not in "".join(lines)


def test_tokens_are_not_read_as_markup():
    words = ["[red]", "[/red]"]
    output = printed(heatmap(np.eye(2), words, words, title="[bold]").terminal(), system="truecolor")
    assert "[red]" in output
    assert "[/red]" in output


def test_compact_maps_stand_side_by_side():
    table = Table.grid(padding=(0, 2))
    table.add_row(heatmap(WEIGHTS, WORDS, WORDS).terminal(compact=True), "words")
    assert printed(table).splitlines()[0].startswith("█     words")
