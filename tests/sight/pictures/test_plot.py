import math

import pytest

from regard.sight.pictures.colours import FAINT, HIDDEN, HUES
from regard.sight.pictures.plot import Plot, Series, symbol
from regard.sight.pictures.scene import Box, Circle, Label, Stroke
from regard.sight.pictures.ticks import axis


def plot(xs, ys):
    return Plot(left=100, top=50, width=300, height=200, across=axis(xs, tight=True), up=axis(ys, count=3))


def test_the_corners_of_the_plot_are_the_ends_of_its_axes():
    found = plot([0, 6], [0, 4])
    assert found.place(0, 0) == (100, 250)
    assert found.place(6, 4) == (400, 50)
    assert found.place(2, 3) == pytest.approx((200, 100))


def test_each_tick_has_a_line_and_a_number():
    marks = plot([0, 6], [0, 4]).grid()
    lines = [mark.places for mark in marks if isinstance(mark, Stroke) and mark.ink == HIDDEN]
    assert lines == [((100, y), (400, y)) for y in (250, 150, 50)]
    numbers = {(mark.text, mark.anchor): (mark.x, mark.y) for mark in marks if isinstance(mark, Label)}
    assert numbers["2", "right"] == (92, 150)
    assert numbers["2", "middle"] == pytest.approx((200, 264))
    assert {mark.ink for mark in marks if isinstance(mark, Label)} == {FAINT}


def test_runs_are_what_lies_between_gaps():
    points = [(0, math.nan), (1, 1.0), (2, 2), (3, None), (4, -math.inf), (5, 5.0), (math.nan, 6.0), (7, 7.0)]
    assert Series(name="a", points=points).runs() == [[(1, 1), (2, 2)], [(5, 5)], [(7, 7)]]
    assert Series(name="a", points=[(0, None)]).runs() == []


def test_points_are_symbols_on_a_faint_line():
    marks = plot([0, 6], [0, 4]).drawn(Series(name="a", points=[(0, 0), (6, 4)], look="points"), 1)
    assert [type(mark) for mark in marks] == [Stroke, Box, Box]
    assert marks[0].ink != HUES[1] == marks[1].edge
    centre = (marks[2].x + marks[2].width / 2, marks[2].y + marks[2].height / 2)
    assert centre == pytest.approx((400, 50))
    assert isinstance(symbol((0, 0), 0), Circle)


def test_a_hundred_thousand_points_are_drawn_by_their_extremes():
    points = [(n, float(n % 2)) for n in range(100_000)]
    points[70_001] = (70_001, 9.0)
    (line,) = plot([0, 100_000], [0, 9]).drawn(Series(name="", points=points), 0)
    assert len(line.places) < 3000
    heights = sorted(y for _, y in line.places)
    assert heights[0] < heights[1] - 100  # the one peak is still there
    assert [x for x, _ in line.places] == sorted(x for x, _ in line.places)
