import numpy as np
import pytest
from PIL import Image
from sight.pictures.drawn import HOSTILE, elements, printed, texts

from regard import RegardError
from regard.sight.pictures.alignment_map import alignment_map
from regard.sight.pictures.colours import MARKED, PAPER, colour
from regard.sight.pictures.png import SCALE

WEIGHTS = np.array([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7], [0.0, 0.0, 0.0]])
TARGETS, SOURCES = ["je", "regarde", "!"], ["I", "look", "."]


def pixels(picture, path):
    """What is seen in the middle, beside it, and along the upper edge of a cell."""
    picture.png(path)
    page, layout = Image.open(path), picture.picture.layout()

    def cell(target, source):
        x, y = (corner * SCALE for corner in layout.corner(target, source))
        half, side = layout.cell * SCALE / 2, layout.cell * SCALE
        row = [page.getpixel((round(x + step), round(y))) for step in range(4, side - 6)]
        return (
            page.getpixel((round(x + half), round(y + half))),
            page.getpixel((round(x + 10), round(y + 10))),
            row,
        )

    return cell


def test_a_link_is_a_dot_in_its_cell_and_a_reference_pair_an_outline_around_it(tmp_path):
    picture = alignment_map(WEIGHTS, TARGETS, SOURCES, sure=[(0, 0)], possible=[(1, 1)], title="t")
    cell = pixels(picture, tmp_path / "x.png")
    for target, source in np.ndindex(3, 3):
        middle, beside, edge = cell(target, source)
        assert beside == colour(WEIGHTS[target, source] / 0.7)
        assert (middle == PAPER) == ((target, source) in {(0, 0), (1, 2)})
        share = sum(spot == MARKED for spot in edge) / len(edge)
        assert (
            share == 1
            if (target, source) == (0, 0)
            else 0.3 < share < 0.8
            if (target, source) == (1, 1)
            else share == 0
        )


def test_without_links_each_target_has_its_heaviest_source_if_it_looks_at_all():
    assert alignment_map(WEIGHTS, TARGETS, SOURCES).links == {(0, 0), (1, 2)}
    assert alignment_map(WEIGHTS, TARGETS, SOURCES, links=[(2, 1)]).links == {(2, 1)}
    assert not alignment_map(WEIGHTS, TARGETS, SOURCES, links=[]).links


def test_what_is_sure_is_not_also_shown_as_possible():
    picture = alignment_map(WEIGHTS, TARGETS, SOURCES, sure=[(0, 0)], possible=[(0, 0), (0, 1)])
    assert picture.possible == {(0, 1)}


def test_the_legend_names_what_is_there_and_nothing_else():
    assert "link" in texts(alignment_map(WEIGHTS, TARGETS, SOURCES)._repr_html_())
    assert not any("sure" in text for text in texts(alignment_map(WEIGHTS, TARGETS, SOURCES)._repr_html_()))
    assert "possible" in texts(alignment_map(WEIGHTS, TARGETS, SOURCES, possible=[(0, 0)])._repr_html_())


@pytest.mark.parametrize("word", HOSTILE)
def test_hostile_words_stay_text(word, tmp_path):
    def drawn(word):
        picture = alignment_map(WEIGHTS, [word, "b", "c"], [word, "d", "e"], sure=[(0, 0)], title=word)
        picture.svg(tmp_path / "x.svg")
        assert (tmp_path / "x.svg").read_text() in picture._repr_html_()
        return elements((tmp_path / "x.svg").read_text())

    assert drawn(word) == drawn("harmless")


@pytest.mark.parametrize("system", [None, "truecolor"])
def test_the_terminal_shows_words_links_and_what_marks_mean(system):
    picture = alignment_map(WEIGHTS, TARGETS, SOURCES, sure=[(0, 0)], possible=[(1, 1)])
    output = printed(picture.terminal(), system=system)
    assert all(word in output for word in TARGETS)
    assert output.count("●□") == 1
    assert output.count("●") == 3
    assert "□ sure   ◌ possible" in output


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"links": [(3, 0)]}, ["links", "(3, 0)", "3 target"]),
        ({"sure": [(0, -1)]}, ["sure", "(0, -1)"]),
        ({"possible": [(0, 3)]}, ["possible", "(0, 3)", "3 source"]),
        ({"top": 0}, ["top=0"]),
    ],
)
def test_pairs_that_are_not_there_are_refused_by_name(as_a_user, options, named):
    with pytest.raises(RegardError) as error:
        alignment_map(WEIGHTS, TARGETS, SOURCES, **options)
    assert all(name in str(error.value) for name in named), str(error.value)


def test_too_many_words_are_refused():
    with pytest.raises(RegardError, match=r"257.*256"):
        alignment_map(np.ones((257, 1)), ["a"] * 257, ["b"])
