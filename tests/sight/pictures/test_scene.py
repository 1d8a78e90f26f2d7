import math
from itertools import combinations

import numpy as np
import pytest
from rich.cells import cell_len
from sight.pictures.drawn import printed

from regard import Chart, RegardError, Series, alignment_map, atlas, heatmap, lines, overlay, sheet
from regard.sight.pictures.bars import Bar, Bars
from regard.sight.pictures.png import length
from regard.sight.pictures.scene import (
    Box,
    Circle,
    Drawing,
    Label,
    Panels,
    Pixels,
    Ribbon,
    Stroke,
    amount,
    letters,
    moved,
    plain,
    shorten,
)

INK = (1, 2, 3)
WEIGHTS = [[0.7, 0.3], [0.5, 0.5]]


@pytest.mark.parametrize(
    ("mark", "places"),
    [
        (Label(x=1, y=2, text="a", size=9), lambda mark: [(mark.x, mark.y)]),
        (Box(x=1, y=2, width=3, height=4), lambda mark: [(mark.x, mark.y)]),
        (Circle(x=1, y=2, radius=3, fill=INK, edge=INK), lambda mark: [(mark.x, mark.y)]),
        (
            Pixels(x=1, y=2, width=3, height=4, pixels=np.zeros((1, 1, 3), np.uint8)),
            lambda mark: [(mark.x, mark.y)],
        ),
        (Ribbon(start=(1, 2), end=(3, 4), thick=1, ink=INK), lambda mark: [mark.start, mark.end]),
        (Stroke(places=((1, 2), (3, 4)), thick=1, ink=INK), lambda mark: list(mark.places)),
    ],
)
def test_a_mark_is_moved_whole(mark, places):
    assert places(moved(mark, 10, 100)) == [(x + 10, y + 100) for x, y in places(mark)]


@pytest.mark.parametrize("make", [heatmap, alignment_map, lines])
def test_every_picture_is_written_as_its_name_says(tmp_path, make):
    picture = make(WEIGHTS, ["a", "b"], ["c", "d"])
    assert isinstance(picture, Drawing)
    picture.write(tmp_path / "x.png")
    picture.write(str(tmp_path / "x.svg"))
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "x.svg").read_text().startswith("<svg")


@pytest.mark.parametrize(("name", "said"), [("x.pdf", "not as .pdf"), ("x", "not as a file without either")])
def test_another_kind_of_file_is_refused_in_one_line(tmp_path, name, said):
    with pytest.raises(RegardError) as error:
        heatmap(WEIGHTS, ["a", "b"], ["c", "d"]).write(tmp_path / name)
    assert str(error.value).endswith(f"a picture is written as .png or .svg, {said}")
    assert not (tmp_path / name).exists()


LONG = ["Überwältigend", "ночью", "παράδειγμα", "日本語の文章", "WWWWWWWWWWWWWWWW", "été"]
TITLE = "A title that is far longer than what is drawn below it, été, наверное, with a note as long"
POINTS = [(0, 0.0), (100_000, 1e6)]
PICTURES = {
    "heatmap": lambda: heatmap(np.eye(6), LONG, LONG[::-1], title=TITLE, note=TITLE),
    "small cells": lambda: heatmap(np.eye(120), LONG * 20, LONG * 20),
    "alignment": lambda: alignment_map(np.eye(6), LONG, LONG, sure=[(0, 0)], possible=[(1, 1)]),
    "lines": lambda: lines(np.stack([np.eye(6)] * 3), LONG, LONG, heads=LONG[:3], title=TITLE),
    "atlas": lambda: atlas(
        [np.ones((6, 4, 4))] * 2, layers=LONG[:2], heads=[word[:4] for word in LONG], numbers=[np.ones(6)] * 2
    ),
    "overlay": lambda: overlay(np.zeros((60, 80)), np.ones((6, 2, 2)), words=[word[:9] for word in LONG]),
    "wide overlay": lambda: overlay(np.zeros((10, 80)), np.ones((6, 2, 2)), words=LONG),
    "chart": lambda: Chart(
        series=[Series(name=name, points=POINTS) for name in LONG], title=TITLE, x=TITLE, y=TITLE
    ),
    "bars": lambda: Bars(groups=[(TITLE, [Bar(name=name, amount=1, said=name) for name in LONG])]),
    "sheet": lambda: sheet([[heatmap(np.eye(6), LONG, LONG, title=name)] * 2 for name in LONG[:2]]),
}


def corners(label):
    """Of a text, as high as its capital letters."""
    wide, half = length(label.text, label.size), 0.36 * label.size
    left = -wide * {"left": 0, "middle": 0.5, "right": 1}[label.anchor]
    turn = math.radians(label.angle)
    return [
        (label.x + x * math.cos(turn) + y * math.sin(turn), label.y - x * math.sin(turn) + y * math.cos(turn))
        for x in (left, left + wide)
        for y in (-half, half)
    ]


@pytest.mark.parametrize("name", PICTURES)
def test_no_text_runs_out_of_the_picture_or_over_another(name):
    scene = PICTURES[name]().scene()
    labels = [mark for mark in scene.marks if isinstance(mark, Label) and mark.text]
    assert len(labels) > 4
    for label in labels:
        assert all(0 <= x <= scene.width and 0 <= y <= scene.height for x, y in corners(label)), label
    level = [corners(label) for label in labels if label.angle in (0, 90)]
    for one, other in combinations(level, 2):
        (left, top), (right, bottom) = (tuple(f(at) for at in zip(*one, strict=True)) for f in (min, max))
        (west, north), (east, south) = (tuple(f(at) for at in zip(*other, strict=True)) for f in (min, max))
        assert right <= west or east <= left or bottom <= north or south <= top, (one, other)


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_the_same_bytes_each_time(tmp_path, name):
    for kind in ("png", "svg"):
        for turn in (1, 2):
            PICTURES[name]().write(tmp_path / f"{turn}.{kind}")
        assert (tmp_path / f"1.{kind}").read_bytes() == (tmp_path / f"2.{kind}").read_bytes()


UPPER = Chart(y="upper", series=[Series(name="a", points=[(0, 1.0), (1, 2.0)])])
LOWER = Chart(y="lower", series=[Series(name="b", points=[(0, 1.0), (1, 2.0)])], width=200)


def test_pictures_lie_under_one_another():
    alone, page = [chart.scene() for chart in (UPPER, LOWER)], Panels(parts=[UPPER, LOWER]).scene()
    assert page.height == sum(scene.height for scene in alone)
    assert page.width == max(scene.width for scene in alone)
    places = {mark.text: (mark.x, mark.y) for mark in page.marks if isinstance(mark, Label)}
    (own,) = [mark for mark in alone[1].marks if isinstance(mark, Label) and mark.text == "lower"]
    assert places["lower"] == (own.x, own.y + alone[0].height)
    assert len(page.marks) == sum(len(scene.marks) for scene in alone)


def test_a_title_is_above_all():
    page = Panels(parts=[UPPER], title="both", note="of them").scene()
    heights = {mark.text: mark.y for mark in page.marks if isinstance(mark, Label)}
    assert heights["both"] < heights["of them"] < heights["upper"]


def test_the_terminal_shows_them_in_order():
    output = printed(Panels(parts=[UPPER, LOWER], title="both").terminal())
    assert output.index("both") < output.index("upper") < output.index("lower")


def test_a_page_without_pictures_is_refused():
    with pytest.raises(RegardError, match="at least one"):
        Panels(parts=[])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("watch", "watch"),
        ("a\nb", "a␊b"),
        ("\t", "␉"),
        ("\x1b[31m", "␛[31m"),
        ("\x7f", "␡"),
        ("\u202eevil", "�evil"),
        ("\u2028", "�"),
        ("\ud800", "�"),
        ("Stra\u00dfe", "Straße"),
        ("e\u0301", "é"),
        (" the", "␣the"),
        ("New York ", "New York␣"),
        ("  ", "␣␣"),
        ("", ""),
        ("\u00a0x", "␣x"),
        ("👩\u200d🚀", "👩🚀"),
    ],
)
def test_text_becomes_one_visible_line(text, shown):
    assert plain(text) == shown


def test_long_text_is_cut_with_an_ellipsis():
    assert plain("supercalifragilistic", 8) == "superca…"
    assert plain("exactly8", 8) == "exactly8"
    assert len(plain("x" * 10_000_000, 8)) == 8


@pytest.mark.parametrize("limit", range(1, 9))
def test_wide_letters_count_twice(limit):
    assert cell_len(plain("日本語日本語", limit)) <= limit
    assert plain("日本語日本語", 5) == "日本…"


def test_only_two_accents_stay_on_a_letter():
    assert len(plain("q" + "\u0323" * 50)) == 3


def test_shorten_leaves_what_fits():
    assert shorten("abc", 3) == "abc"
    assert shorten("abcd", 3) == "ab…"


def test_accents_stay_with_their_letter():
    assert letters("aq\u0323b") == ["a", "q\u0323", "b"]


@pytest.mark.parametrize(
    ("weight", "text"), [(1.0, "1"), (0.5, "0.5"), (0.7071, "0.71"), (0.0123, "0.012"), (0, "0")]
)
def test_a_weight_is_written_in_few_digits(weight, text):
    assert amount(weight) == text
