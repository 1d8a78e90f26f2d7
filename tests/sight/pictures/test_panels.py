import numpy as np
import pytest
from PIL import Image
from sight.pictures.drawn import printed

from regard import RegardError, heatmap
from regard.sight.pictures.chart import Chart
from regard.sight.pictures.colours import colour
from regard.sight.pictures.panels import Panels, sheet
from regard.sight.pictures.plot import Series
from regard.sight.pictures.png import SCALE
from regard.sight.pictures.scene import Label

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


def test_a_sheet_shows_each_map_in_its_place(tmp_path):
    def flat(level):
        return heatmap(np.full((2, 2), level), ["a", "b"], ["c", "d"], top=1.0)

    levels = [[0.1, 0.5, 0.9], [0.3]]
    page = sheet([[flat(level) for level in row] for row in levels])
    page.png(tmp_path / "sheet.png")
    image = Image.open(tmp_path / "sheet.png")
    layout = flat(0.5).layout(cell=18, angle=90.0)
    assert image.size == (3 * layout.width * SCALE, 2 * layout.height * SCALE)
    x, y = (round((corner + layout.cell / 2) * SCALE) for corner in layout.corner(0, 0))
    for i, row in enumerate(levels):
        for j, level in enumerate(row):
            spot = (x + round(j * layout.width * SCALE), y + round(i * layout.height * SCALE))
            assert image.getpixel(spot) == colour(level)


@pytest.mark.parametrize("rows", [[], [[]]])
def test_an_empty_sheet_is_refused(rows):
    with pytest.raises(RegardError, match="at least one"):
        sheet(rows)


def test_a_sheet_is_also_written_as_svg_and_shown_in_a_terminal(tmp_path):
    maps = [heatmap([[0.5, 0.5]], ["a"], ["b", "c"], title=name) for name in ("first", "second")]
    sheet([maps]).svg(tmp_path / "x.svg")
    assert (tmp_path / "x.svg").read_text().count("a → b: 0.5") == 2
    output = printed(sheet([maps]).terminal())
    assert output.index("first") < output.index("second")
