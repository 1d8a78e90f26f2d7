import math
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from PIL import Image
from sight.pictures.drawn import HOSTILE, SVG, elements, texts

from regard import RegardError
from regard.sight.pictures.chart import DASHES, Chart, Plot, Series, axis, spread, symbol, ticks_over
from regard.sight.pictures.colours import FAINT, HIDDEN, HUES, PAPER
from regard.sight.pictures.png import SCALE, image
from regard.sight.pictures.scene import Box, Circle, Label, Stroke
from regard.sight.pictures.svg import document

LINE = Series(name="a", points=[(0, 0.0), (10, 1.0)])


def strokes(chart, ink):
    return [mark for mark in chart.scene().marks if isinstance(mark, Stroke) and mark.ink == ink]


def words(chart):
    return {mark.text: mark for mark in chart.scene().marks if isinstance(mark, Label)}


def test_a_point_is_where_its_numbers_say():
    chart = Chart(series=[Series(name="", points=[(0, 0.0), (5, 0.25), (10, 1.0)])], width=400, height=200)
    (line,) = strokes(chart, HUES[0])[:1]
    left, right, low, high = line.places[0][0], line.places[2][0], line.places[0][1], line.places[2][1]
    assert (right - left, low - high) == pytest.approx((400, 200))
    assert line.places[1] == pytest.approx((left + 200, low - 50))
    page = image(chart.scene())
    for x, y in (line.places[1], ((left + line.places[1][0]) / 2, (low + line.places[1][1]) / 2)):
        assert page.getpixel((round(x * SCALE), round(y * SCALE))) == HUES[0]
    assert page.getpixel((round((left + 300) * SCALE), round((low - 130) * SCALE))) == PAPER


def test_a_tick_is_written_at_the_height_of_its_value():
    chart = Chart(series=[LINE], percent=True)
    (line, *_), said = strokes(chart, HUES[0]), words(chart)
    assert said["0 %"].y == pytest.approx(line.places[0][1])
    assert said["100 %"].y == pytest.approx(line.places[1][1])
    assert said["10"].x == pytest.approx(line.places[1][0])


def test_on_a_logarithmic_axis_equal_factors_are_equally_high():
    chart = Chart(series=[Series(name="", points=[(0, 1.0), (1, 10.0), (2, 100.0), (3, 1000.0)])], log=True)
    heights = [y for _, y in strokes(chart, HUES[0])[0].places]
    assert [a - b for a, b in pairwise(heights)] == pytest.approx([260 / 3] * 3)


def test_on_two_logarithmic_axes_a_power_is_a_straight_line():
    points = [(n, 3.0 * n**2) for n in (1, 10, 100, 1000)]
    chart = Chart(series=[Series(name="n²", points=points)], log=True, log_x=True)
    places = strokes(chart, HUES[0])[0].places
    steps = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(places)]
    assert [step for each in steps for step in each] == pytest.approx([560 / 3, steps[0][1]] * 3)


@pytest.mark.parametrize("missing", [None, float("nan"), float("inf")])
def test_what_is_missing_is_a_gap(missing):
    points = [(0, 1.0), (1, 2.0), (2, missing), (3, 2.0), (4, 1.0), (5, missing), (6, 1.5)]
    chart = Chart(series=[Series(name="", points=points)])
    drawn = [mark for mark in chart.scene().marks if isinstance(mark, Stroke) and mark.ink == HUES[0]]
    assert [len(stroke.places) for stroke in drawn[:2]] == [2, 2]
    assert sum(isinstance(mark, Circle) for mark in chart.scene().marks) == 1  # the lonely last point


def test_series_differ_in_colour_and_in_dashes_or_symbols():
    lines = [Series(name=f"line {n}", points=[(0, n), (1, n)]) for n in range(8)]
    drawn = [
        mark for mark in Chart(series=lines).scene().marks if isinstance(mark, Stroke) and mark.ink in HUES
    ]
    assert {(mark.ink, mark.dashes) for mark in drawn} == set(zip(HUES, DASHES, strict=True))
    points = [Series(name=f"{n}", points=[(0, n), (1, n)], look="points") for n in range(4)]
    marks = [mark for mark in Chart(series=points).scene().marks if isinstance(mark, Circle | Box)]
    assert len({(type(mark), mark.fill == PAPER) for mark in marks}) == 4


def test_names_stand_right_of_the_plot_at_the_ends_of_their_lines_and_never_on_one_another():
    ends = {"high": 1.0, "nearly": 0.99, "low": 0.0}
    chart = Chart(series=[Series(name=name, points=[(0, 0.5), (9, end)]) for name, end in ends.items()])
    said = words(chart)
    right = max(x for stroke in strokes(chart, HUES[0])[:1] for x, _ in stroke.places)
    assert all(said[name].x > right for name in ends)
    assert said["high"].y + 19 <= said["nearly"].y + 1e-9 < said["low"].y
    end = strokes(chart, HUES[2])[0].places[-1][1]
    assert abs(said["low"].y - end) < 10


def test_a_thin_series_has_no_name_lies_behind_and_is_a_paler_shade_of_the_next():
    chart = Chart(
        series=[
            LINE,
            Series(name="raw", points=[(0, 0.3), (9, 1.0)], look="thin"),
            Series(name="b", points=[(0, 0.2), (9, 0.9)]),
        ]
    )
    assert "raw" not in words(chart)
    inks = [mark.ink for mark in chart.scene().marks if isinstance(mark, Stroke) and len(set(mark.ink)) == 3]
    pale = tuple(round(255 + 0.35 * (each - 255)) for each in HUES[1])
    curves = [ink for ink in inks if ink in (pale, HUES[0], HUES[1])]
    assert curves[0] == pale


def test_places_are_spread_no_more_than_needed():
    assert spread([10.0, 50.0], 10, (0, 100)) == [10.0, 50.0]
    assert spread([50.0, 52.0, 51.0], 10, (0, 100)) == [50.0, 70.0, 60.0]
    assert spread([99.0, 100.0], 10, (0, 100)) == [90.0, 100.0]
    assert spread([0.0, 0.0, 0.0], 50, (0, 100)) == [0.0, 50.0, 100.0]


@pytest.mark.parametrize(
    "points",
    [
        [(3, 7.0)],
        [(0, 5.0), (9, 5.0)],
        [(0, 0.0), (1, 0.0)],
        [(0, -1e308), (1, 1e308)],
        [(1e9, 1e-12), (2e9, 3e-12)],
    ],
)
def test_odd_numbers_stay_inside_the_page(points):
    chart = Chart(series=[Series(name="x", points=points)], title="t", x="x", y="y")
    scene = chart.scene()
    for mark in scene.marks:
        places = mark.places if isinstance(mark, Stroke) else [(mark.x, mark.y)]
        assert all(0 <= x <= scene.width and 0 <= y <= scene.height for x, y in places)
    assert image(scene).size == (SCALE * scene.width, SCALE * scene.height)


def test_the_files_are_what_they_are_called(tmp_path):
    chart = Chart(title="t", series=[LINE])
    chart.write(tmp_path / "x.png")
    chart.write(tmp_path / "x.SVG")
    scene = chart.scene()
    assert Image.open(tmp_path / "x.png").size == (SCALE * scene.width, SCALE * scene.height)
    root = ElementTree.parse(tmp_path / "x.SVG").getroot()
    assert root.get("width") == str(scene.width)
    assert len(list(root.iter(f"{SVG}polyline"))) > 2
    with pytest.raises(RegardError, match=r"x\.pdf: a picture is written as \.png or \.svg, not as \.pdf"):
        chart.write(tmp_path / "x.pdf")


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_stay_text(text):
    def drawn(name):
        return document(
            Chart(title=name, x=name, y=name, series=[Series(name=name, points=[(0, 1.0), (1, 2.0)])]).scene()
        )

    assert elements(drawn(text)) == elements(drawn("harmless"))
    assert "0" in texts(drawn(text))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"series": []}, "no point to draw"),
        ({"series": [Series(name="a", points=[(0, None)])]}, "no point to draw"),
        ({"series": [LINE], "log": True}, "log=True with a value of 0"),
        ({"series": [LINE], "log_x": True}, "log_x=True with a value of 0"),
        ({"series": [LINE], "log": True, "percent": True}, "an axis has one of them"),
        ({"series": [LINE] * 9}, "9 series"),
    ],
)
def test_what_cannot_be_drawn_is_refused(options, named):
    with pytest.raises(RegardError, match=named):
        Chart(**options)


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


@pytest.mark.parametrize(
    ("ends", "count", "ticks"),
    [
        ((0, 1), 6, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        ((0, 437), 6, [0, 100, 200, 300, 400]),
        ((1, 19), 6, [5, 10, 15]),
        ((-0.3, 0.3), 7, [-0.3, -0.2, -0.1, 0, 0.1, 0.2, 0.3]),
        ((1e-7, 9e-7), 5, [2e-7, 4e-7, 6e-7, 8e-7]),
    ],
)
def test_ticks_are_round_numbers_between_the_ends(ends, count, ticks):
    assert ticks_over(*ends, count=count) == ticks


def test_an_axis_of_y_ends_at_ticks_around_its_values():
    found = axis([0.13, 0.78])
    assert (found.low, found.high) == (0.0, 0.8)
    assert found.ticks == (0.0, 0.2, 0.4, 0.6, 0.8)
    assert found.names() == ("0", "0.2", "0.4", "0.6", "0.8")


def test_a_tight_axis_ends_at_its_values():
    found = axis([3, 17], count=4, tight=True)
    assert (found.low, found.high, found.ticks) == (3, 17, (5.0, 10.0, 15.0))
    assert [found.at(3), found.at(10), found.at(17)] == [0.0, 0.5, 1.0]


def test_a_logarithmic_axis_has_powers_of_ten_equally_far_apart():
    found = axis([0.0004, 60.0], kind="log")
    assert found.ticks == (1e-4, 1e-2, 1.0, 100.0)
    assert found.names() == ("10⁻⁴", "0.01", "1", "100")
    assert [found.at(tick) for tick in found.ticks] == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert axis([1e-200, 1e200], kind="log").names() == ("10⁻²⁰⁰", "10⁻¹⁰⁰", "1", "10¹⁰⁰", "10²⁰⁰")
    assert axis([3.0, 18.0], kind="log").ticks == (2.0, 5.0, 10.0, 20.0)


def test_a_tight_logarithmic_axis_ends_at_its_values():
    found = axis([128, 8192], kind="log", tight=True)
    assert (found.low, found.high) == (128, 8192)
    assert found.ticks == (200.0, 500.0, 1000.0, 2000.0, 5000.0)
    assert [found.at(n) for n in (128, 1024, 8192)] == pytest.approx([0, 0.5, 1])
    assert axis([300, 400], kind="log", tight=True).ticks == (300, 400)
    assert axis([64, 64], kind="log", tight=True).low < 64


def test_percent_is_a_hundred_times_the_value():
    found = axis([0.0, 0.985], kind="percent", count=3)
    assert found.names() == ("0 %", "50 %", "100 %")


@pytest.mark.parametrize("value", [0.0, 1.0, -2.5, 1e-9, 3e7, 1e300, 5e-324])
@pytest.mark.parametrize("tight", [True, False])
def test_a_constant_lies_inside_its_axis(value, tight):
    found = axis([value, value], tight=tight)
    assert found.low <= value <= found.high
    assert found.low < found.high
    assert 0.2 < found.at(value) < 0.8
    assert len(set(found.names())) == len(found.ticks) >= 1


def test_a_constant_share_stays_below_a_hundred_percent():
    found = axis([1.0], kind="percent")
    assert found.high == 1.0
    assert found.names()[-1].startswith("100")


@pytest.mark.parametrize(
    ("ends", "kind"),
    [
        ((-1e308, 1e308), "plain"),
        ((1e-300, 1e300), "log"),
        ((0.0, 1e-12), "plain"),
        ((5e-324, 1.7e308), "log"),
    ],
)
def test_however_far_apart_the_ends_the_ticks_are_few_and_named_apart(ends, kind):
    found = axis(ends, kind=kind)
    assert 2 <= len(found.ticks) <= 9
    assert all(math.isfinite(tick) and 0 <= found.at(tick) <= 1 for tick in found.ticks)
    assert [0 <= found.at(end) <= 1 for end in ends] == [True, True]
    assert len(set(found.names())) == len(found.ticks)


def test_large_numbers_have_separators_and_huge_ones_a_power():
    assert axis([0, 20_000], count=3).names() == ("0", "10,000", "20,000")
    assert axis([0, 4e6], count=3).names() == ("0", "2×10⁶", "4×10⁶")
    assert axis([-4e-7, 4e-7], count=3).names() == ("−5×10⁻⁷", "0", "5×10⁻⁷")
    assert axis([950_000, 1_050_000], count=3).names() == ("0.95×10⁶", "1.00×10⁶", "1.05×10⁶")
