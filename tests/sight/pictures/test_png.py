from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import regard.sight.pictures
from regard.sight.pictures import png
from regard.sight.pictures.colours import HATCH, HIDDEN
from regard.sight.pictures.png import SCALE, dashes_of, length, paint, shape
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


FOLDER = Path(regard.sight.pictures.__file__).parent / "dejavu"


@pytest.fixture
def bare(monkeypatch):
    """A machine without any font of its own."""
    monkeypatch.setattr(png, "_SYSTEM", ())
    for cached in (png._face, png._advance, png.shape):
        cached.cache_clear()
    yield
    for cached in (png._face, png._advance, png.shape):
        cached.cache_clear()


def drawn(text, size=40.0, angle=0.0):
    return np.asarray(shape(text, size, angle)[0], dtype=float)


def inked(text, size=40.0):
    """The rows and columns that have ink, from the start and the middle line of the text."""
    mask, (x, y) = shape(text, size)
    rows, columns = np.nonzero(np.asarray(mask) > 40)
    return rows.min() - y, rows.max() + 1 - y, columns.min() - x, columns.max() + 1 - x


def test_widths_are_those_that_another_reader_finds_in_the_whole_font():
    ft2font = pytest.importorskip("matplotlib.ft2font")
    from matplotlib import font_manager

    whole = ft2font.FT2Font(font_manager.findfont("DejaVu Sans", fallback_to_default=False))
    whole.set_size(12, 72)
    flags = ft2font.LoadFlags.NO_HINTING if hasattr(ft2font, "LoadFlags") else ft2font.LOAD_NO_HINTING
    for letter in "aWi.é ÅßŁΩжЩ→≤√½ᵀ␣�":
        advance = whole.load_char(ord(letter), flags=flags).linearHoriAdvance / 65536
        assert length(letter, 12) == pytest.approx(advance, abs=0.01), letter
    assert length("Straße", 12) == pytest.approx(sum(length(each, 12) for each in "Straße"))
    assert length("Straße", 24) == pytest.approx(2 * length("Straße", 12))


@pytest.mark.parametrize("size", [8.0, 13.0, 31.0])
@pytest.mark.parametrize("text", ["Hamburgefonstiv", "H" * 60, "Ελληνικά", "Широкая"])
def test_what_is_drawn_is_as_wide_as_it_was_measured(text, size):
    _, _, left, right = inked(text, size)
    assert -0.1 * size <= left <= 0.2 * size
    assert right == pytest.approx(length(text, size), abs=0.2 * size)


@pytest.mark.parametrize(
    "pair", ["eé", "uü", "aå", "nñ", "cç", "oø", "lł", "oő", "sš", "AÄ", "iï", "aạ", "eễ", "αά", "ий", "ΥΫ"]
)
def test_an_accent_is_seen_on_its_letter(bare, pair):
    base, accented = pair
    without, with_accent = drawn(base), drawn(accented)
    assert without.shape[0] == with_accent.shape[0]
    assert with_accent.sum() > 1.05 * without.sum()


def test_an_accent_that_is_a_character_of_its_own_sits_on_the_letter_before_it(bare):
    assert length("q\u0301", 40) == length("q", 40)
    assert inked("q\u0301")[0] < inked("q")[0] - 3
    assert inked("q\u0301")[3] == inked("q")[3]


@pytest.mark.parametrize("letter", "ßœıŁΩжѣ—–−×√‖τ→≤∞ᵀ²₂ⱼ␣½�■╱")
def test_the_shipped_font_has_what_pictures_are_labelled_with(bare, letter):
    assert png._face(letter) == str(FOLDER / "DejaVuSans.ttf")
    assert drawn(letter).max() > 100


def test_what_no_font_has_is_a_box_with_its_number(bare):
    found = [drawn(each) for each in "漢字␊␍\U0001fae0"]
    assert [png._face(each) for each in "漢字␊␍\U0001fae0"] == [""] * 5
    assert all(each.max() > 100 for each in found)
    assert len({each.tobytes() for each in found}) == 5
    top, bottom, left, right = inked("漢")
    assert bottom - top > 30
    assert (right - left, length("漢", 40)) == (pytest.approx(36, abs=2), 40)


def test_text_turned_by_90_degrees_runs_upwards_from_its_place():
    mask, (x, y) = shape("watchmen", 30.0, 90.0)
    rows, columns = np.nonzero(np.asarray(mask))
    assert -5 < rows.max() - y <= 1
    assert rows.max() - rows.min() == pytest.approx(length("watchmen", 30), abs=5)
    assert -20 < columns.min() - x < columns.max() - x < 20


def test_turned_by_45_degrees_the_end_is_as_far_right_as_it_is_up():
    mask, (x, y) = shape("wwwwwwww", 30.0, 45.0)
    rows, columns = np.nonzero(np.asarray(mask))
    reach = length("wwwwwwww", 30) / 2**0.5
    assert columns.max() - x == pytest.approx(reach, abs=12)
    assert y - rows.min() == pytest.approx(reach, abs=12)


def test_the_middle_of_a_line_does_not_depend_on_its_letters():
    (low, high), (deep, tall) = inked("x")[:2], inked("Ägß")[:2]
    assert shape("acx", 30.0)[1] == shape("Äpgß", 30.0)[1]
    assert deep < low < 0 < high < tall


def test_the_same_text_is_the_same_bytes_each_time():
    first = shape("été → 漢", 26.0)[0].tobytes()
    shape.cache_clear()
    png._font.cache_clear()
    assert shape("été → 漢", 26.0)[0].tobytes() == first


def test_no_text_leaves_no_trace():
    assert not drawn("").any()
    assert length("", 30) == 0


def test_the_font_is_small_and_comes_with_its_licence():
    assert (FOLDER / "DejaVuSans.ttf").stat().st_size < 300_000
    licence = (FOLDER / "LICENSE").read_text()
    assert "Bitstream Vera" in licence
    assert "DejaVu changes are in public domain" in licence


def test_a_mask_is_grey():
    assert shape("a", 12.0)[0].mode == Image.new("L", (1, 1)).mode
