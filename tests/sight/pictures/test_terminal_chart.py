import re

import pytest
from sight.pictures.drawn import printed

from regard.sight.pictures.chart import Chart, Series

RISING = Series(name="rising", points=[(n, n / 10) for n in range(11)])


def test_a_line_rises_from_the_lower_left_to_the_upper_right():
    lines = printed(Chart(series=[RISING]).terminal(), width=60).splitlines()
    plot = [line[line.index("┤" if "┤" in line else "│") + 1 :] for line in lines[:9]]
    firsts = [re.search("[\u2801-\u28ff]", line).start() for line in plot]
    assert firsts == sorted(firsts, reverse=True)
    assert firsts[0] > 35
    assert firsts[-1] == 0


def test_numbers_names_and_labels_are_written():
    output = printed(
        Chart(title="T", x="steps", y="share", percent=True, series=[RISING]).terminal(), width=60
    )
    lines = output.splitlines()
    assert lines[:2] == ["T", "share"]
    assert lines[2].startswith("100 % ┤")
    assert lines[2].endswith(" rising")
    assert lines[10].startswith("  0 % ┤")
    assert lines[11].endswith("─ steps")
    assert lines[12].split()[0] == "0"
    assert lines[12].split()[-1] == "10"


def test_every_series_is_named_on_a_line_of_its_own():
    many = [Series(name=f"n{n}", points=[(0, 0.0), (1, 1.0)]) for n in range(8)]
    output = printed(Chart(series=many).terminal(), width=60)
    assert [sum(f"n{n}" in line for line in output.splitlines()) for n in range(8)] == [1] * 8


@pytest.mark.parametrize("width", [12, 30, 80, 200])
def test_it_fits_the_console(width):
    chart = Chart(
        title="a title", x="x", y="y", series=[RISING, Series(name="flat", points=[(3, 0.5)], look="points")]
    )
    assert all(len(line) <= width for line in printed(chart.terminal(), width=width).splitlines())


def test_colours_are_those_of_the_series():
    output = printed(Chart(series=[RISING]).terminal(), width=60, system="truecolor")
    assert "\x1b[38;2;0;114;178m" in output


def test_points_are_not_joined_and_gaps_stay_open():
    def dots(series):
        return sum(
            bin(ord(each) - 0x2800).count("1")
            for each in printed(Chart(series=[series]).terminal())
            if 0x2800 < ord(each) < 0x2900
        )

    assert dots(Series(name="", points=[(0, 0.0), (5, 1.0), (10, 0.5)], look="points")) == 3
    whole = dots(Series(name="", points=[(0, 0.5), (5, 0.5), (10, 0.5)]))
    assert dots(Series(name="", points=[(0, 0.5), (5, None), (10, 0.5)])) == 2 < whole
