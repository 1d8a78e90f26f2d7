import pytest
from sight.pictures.drawn import printed

from regard import RegardError
from regard.sight.pictures.chart import Chart
from regard.sight.pictures.panels import Panels
from regard.sight.pictures.plot import Series
from regard.sight.pictures.scene import Words

UPPER = Chart(y="upper", series=[Series(name="a", points=[(0, 1.0), (1, 2.0)])])
LOWER = Chart(y="lower", series=[Series(name="b", points=[(0, 1.0), (1, 2.0)])], width=200)


def test_pictures_lie_under_one_another():
    alone, page = [chart.scene() for chart in (UPPER, LOWER)], Panels(parts=[UPPER, LOWER]).scene()
    assert page.height == sum(scene.height for scene in alone)
    assert page.width == max(scene.width for scene in alone)
    places = {mark.text: (mark.x, mark.y) for mark in page.marks if isinstance(mark, Words)}
    (own,) = [mark for mark in alone[1].marks if isinstance(mark, Words) and mark.text == "lower"]
    assert places["lower"] == (own.x, own.y + alone[0].height)
    assert len(page.marks) == sum(len(scene.marks) for scene in alone)


def test_a_title_is_above_all():
    page = Panels(parts=[UPPER], title="both", note="of them").scene()
    heights = {mark.text: mark.y for mark in page.marks if isinstance(mark, Words)}
    assert heights["both"] < heights["of them"] < heights["upper"]


def test_the_terminal_shows_them_in_order():
    output = printed(Panels(parts=[UPPER, LOWER], title="both").terminal())
    assert output.index("both") < output.index("upper") < output.index("lower")


def test_a_page_without_pictures_is_refused():
    with pytest.raises(RegardError, match="at least one"):
        Panels(parts=[])
