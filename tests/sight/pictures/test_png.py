import numpy as np
import pytest
from PIL import Image

from regard.sight.pictures.colours import HATCH, HIDDEN
from regard.sight.pictures.font import length
from regard.sight.pictures.png import SCALE, dashes_of, paint
from regard.sight.pictures.scene import Box, CellGrid, Circle, Label, Pixels, Ribbon, Stroke

NOISE = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)
BLACK, RED = (0, 0, 0), (255, 0, 0)


def painted(*marks, page=NOISE):
    return np.asarray(paint(Image.fromarray(page), marks))


def test_what_no_shape_touches_stays_as_it_was():
    found = painted(
        Box(x=10, y=5, width=8, height=6, fill=RED), Circle(x=30, y=20, radius=2, fill=RED, edge=BLACK)
    )
    changed = (found != NOISE).any(-1)
    allowed = np.zeros_like(changed)
    allowed[5 * SCALE : 11 * SCALE, 10 * SCALE : 18 * SCALE] = True
    allowed[17 * SCALE : 23 * SCALE, 27 * SCALE : 33 * SCALE] = True
    assert changed.any()
    assert not (changed & ~allowed).any()
    assert (found[5 * SCALE : 11 * SCALE, 10 * SCALE : 18 * SCALE] == RED).all()


@pytest.mark.parametrize("opacity", [0.0, 0.3, 1.0])
def test_a_pale_shape_is_mixed_with_what_is_behind_it_once(opacity):
    page = np.full((60, 80, 3), 255, dtype=np.uint8)
    line = Ribbon(start=(2, 15), end=(38, 15), thick=6, ink=BLACK, opacity=opacity)
    found = painted(line, page=page)[15 * SCALE, 6 * SCALE : 70]
    assert np.abs(found - 255 * (1 - opacity)).max() <= 2


def test_a_stroke_goes_through_its_places_as_thick_as_it_is():
    page = np.full((60, 80, 3), 255, dtype=np.uint8)
    found = painted(Stroke(places=((5, 10), (20, 10), (20, 25)), thick=4, ink=RED), page=page)
    assert (found[10 * SCALE, 5 * SCALE : 21 * SCALE] == RED).all()
    assert (found[10 * SCALE : 24 * SCALE, 20 * SCALE] == RED).all()
    column = (found[: 20 * SCALE, 12 * SCALE] == RED).all(-1)
    assert abs(column.sum() - 4 * SCALE) <= 1
    assert (found[20 * SCALE, 10 * SCALE] == 255).all()


def test_dashes_go_round_corners():
    line = Stroke(places=((0, 0), (5, 0), (5, 7)), thick=1, ink=RED, dashes=(3, 1))
    assert dashes_of(line.places, line.dashes) == [
        [(0, 0), (3, 0)],
        [(4, 0), (5, 0), (5, 2)],
        [(5, 3), (5, 6)],
    ]
    whole = Stroke(places=((0, 0), (5, 0)), thick=1, ink=RED)
    assert dashes_of(whole.places, whole.dashes) == [[(0, 0), (5, 0)]]


def test_an_outline_leaves_the_inside_alone_and_a_dashed_one_has_gaps():
    page = np.full((60, 80, 3), 255, dtype=np.uint8)
    for dashed in (False, True):
        found = painted(Box(x=5, y=5, width=20, height=20, edge=BLACK, thick=2, dashed=dashed), page=page)
        assert (found[8 * SCALE : 22 * SCALE, 8 * SCALE : 22 * SCALE] == 255).all()
        edge = found[5 * SCALE, 5 * SCALE : 25 * SCALE, 0]
        assert (edge == 0).any()
        assert (edge == 255).any() == dashed


def test_a_shape_may_reach_over_the_edge_of_the_page():
    assert painted(Box(x=30, y=20, width=100, height=100, fill=RED)).shape == NOISE.shape
    assert (painted(Box(x=-5, y=-5, width=100, height=100, fill=RED)) == RED).all()


def test_blocky_pixels_keep_their_colours():
    few = np.array([[BLACK, RED], [RED, BLACK]], dtype=np.uint8)
    found = painted(Pixels(x=5, y=5, width=10, height=10, pixels=few))
    assert (found[10:20, 10:20] == BLACK).all()
    assert (found[10:20, 20:30] == RED).all()


def test_text_ends_and_centres_where_it_is_anchored():
    page = np.zeros((60, 400, 3), dtype=np.uint8)
    wide = length("watchmen", 13)
    for anchor, start in (("left", 100), ("middle", 100 - wide / 2), ("right", 100 - wide)):
        found = painted(Label(100, 15, "watchmen", 13, RED, anchor), page=page)
        columns = np.flatnonzero(found.any((0, 2))) / SCALE
        assert (columns[0], columns[-1]) == pytest.approx((start, start + wide), abs=2)


def test_cells_are_flat_with_paper_between_and_hatched_where_hidden():
    colours = np.array([[RED, BLACK]], dtype=np.uint8)
    hidden = np.array([[False, True]])
    grid = CellGrid(x=2, y=3, side=12, colours=colours, hidden=hidden, said=lambda i, j: "")
    found = painted(grid)[3 * SCALE : 15 * SCALE, 2 * SCALE : 26 * SCALE]
    first, second = found[:, : 12 * SCALE], found[:, 12 * SCALE :]
    assert (first[:-SCALE, :-SCALE] == RED).all()
    assert (first[-SCALE:] == 255).all()
    assert (first[:, -SCALE:] == 255).all()
    assert {tuple(spot) for spot in second[:-SCALE, :-SCALE].reshape(-1, 3).tolist()} == {HIDDEN, HATCH}
