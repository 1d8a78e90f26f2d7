import numpy as np
import pytest
import torch
from PIL import Image
from sight.pictures.drawn import printed

from regard import RegardError, causal, weigh
from regard.data.letter_vectors import spell
from regard.sight.pictures.colours import FAINT, HATCH, HIDDEN, PAPER, code, colour
from regard.sight.pictures.heatmap import heatmap, sheet
from regard.sight.pictures.png import SCALE
from regard.sight.pictures.png import image as painted
from regard.sight.pictures.scene import CellGrid

WEIGHTS = np.array([[0.5, 0.3, 0.2], [0.1, 0.0, 0.9]])
QUERIES, KEYS = ["je", "regarde"], ["I", "look", "."]


def centre(layout, query, key):
    """The pixel in the middle of a cell, from the layout alone."""
    return tuple(round((corner + layout.cell / 2) * SCALE) for corner in layout.corner(query, key))


def cells(picture):
    """The cells alone, as pixels."""
    (grid,) = (mark for mark in picture.scene().marks if isinstance(mark, CellGrid))
    return grid.pixels(SCALE)


def test_the_middle_of_each_cell_has_the_colour_of_its_weight(tmp_path):
    picture = heatmap(WEIGHTS, QUERIES, KEYS, title="t", note="n")
    picture.png(tmp_path / "x.png")
    image, layout = Image.open(tmp_path / "x.png"), picture.layout()
    for query, key in np.ndindex(2, 3):
        assert image.getpixel(centre(layout, query, key)) == colour(WEIGHTS[query, key] / 0.9)


def test_top_is_the_weight_of_the_darkest_colour():
    picture = heatmap(WEIGHTS, QUERIES, KEYS, top=2.0)
    assert painted(picture.scene()).getpixel(centre(picture.layout(), 1, 2)) == colour(0.45)


def test_there_are_as_many_cells_as_weights():
    picture = heatmap(np.full((4, 7), 1.0), list("abcd"), list("abcdefg"))
    layout, image = picture.layout(), np.asarray(painted(picture.scene()))
    dark = (image == colour(1.0)).all(-1)
    left, top = round(layout.left * SCALE), round(layout.top * SCALE)
    side = layout.cell * SCALE
    row = dark[top + side // 2, left : left + 7 * side]
    column = dark[top : top + 4 * side, left + side // 2]
    assert np.count_nonzero(np.diff(np.r_[0, row.astype(int)]) == 1) == 7
    assert np.count_nonzero(np.diff(np.r_[0, column.astype(int)]) == 1) == 4


def test_hidden_cells_are_hatched_and_seen_ones_are_not():
    vectors = spell(["one", "two", "three"])[None]
    weights = weigh(vectors, vectors, causal())[0]
    picture = heatmap(weights, ["one", "two", "three"], ["one", "two", "three"], allowed=causal().dense(3, 3))
    layout, image = picture.layout(), np.asarray(painted(picture.scene()))
    side = layout.cell * SCALE
    for query, key in np.ndindex(3, 3):
        left, top = (round(corner * SCALE) for corner in layout.corner(query, key))
        colours = {
            tuple(pixel) for pixel in image[top : top + side, left : left + side].reshape(-1, 3).tolist()
        }
        assert colours - {PAPER} == (
            {HIDDEN, HATCH} if key > query else {colour(float(picture.levels()[query, key]))}
        )


def test_labels_and_title_leave_ink_where_they_belong():
    def ink(**words):
        picture = heatmap(
            WEIGHTS, words.get("queries", ["", ""]), words.get("keys", [""] * 3), title=words.get("title", "")
        )
        layout = heatmap(WEIGHTS, QUERIES, KEYS, title="Title").layout()
        image = np.asarray(painted(picture.scene(layout))).astype(int)
        left, top = round(layout.left * SCALE), round(layout.top * SCALE)
        bar = round(layout.bar[0] * SCALE)
        return bool(image[top:, :left].min() < 128), bool(image[:top, :bar].min() < 128)

    assert ink() == (False, False)
    assert ink(queries=QUERIES) == (True, False)
    assert ink(keys=KEYS) == (False, True)
    assert ink(title="Title") == (False, True)


def test_nothing_is_cut_off_at_the_edges():
    long = ["supercalifragilisticexpialidocious"] * 3
    picture = heatmap(
        np.eye(3), long, long, title="a title that is longer than the map is wide, by far", note="note"
    )
    image = np.asarray(painted(picture.scene()))
    border = np.concatenate(
        [
            image[:3].reshape(-1, 3),
            image[-3:].reshape(-1, 3),
            image[:, :3].reshape(-1, 3),
            image[:, -3:].reshape(-1, 3),
        ]
    )
    assert (border == 255).all()


def test_many_tokens_still_make_a_picture_of_bearable_size():
    picture = heatmap(np.eye(300), ["x"] * 300, ["y"] * 300)
    assert max(painted(picture.scene()).size) < 2000
    assert picture.layout().step > 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_tensors_of_any_kind_that_need_a_gradient_or_not(dtype):
    weights = torch.tensor([[0.25, 0.75]], dtype=dtype, requires_grad=True)
    assert heatmap(weights, ["a"], ["b", "c"]).weights.tolist() == [[0.25, 0.75]]


def test_all_zero_weights_are_all_pale():
    picture = heatmap(np.zeros((2, 2)), ["a", "b"], ["c", "d"])
    assert painted(picture.scene()).getpixel(centre(picture.layout(), 0, 0)) == colour(0.0)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"weights": WEIGHTS, "queries": ["a"], "keys": KEYS}, ["(2, 3)", "1 queries", "3 keys"]),
        ({"weights": WEIGHTS, "queries": QUERIES, "keys": ["a"] * 4}, ["(2, 3)", "4 keys"]),
        ({"weights": WEIGHTS[0], "queries": QUERIES, "keys": KEYS}, ["(3,)"]),
        ({"weights": np.zeros((0, 3)), "queries": [], "keys": KEYS}, ["(0, 3)"]),
        ({"weights": np.zeros((2049, 1)), "queries": ["a"] * 2049, "keys": ["a"]}, ["2049", "2048"]),
        ({"weights": -WEIGHTS, "queries": QUERIES, "keys": KEYS}, ["-0.5"]),
        ({"weights": WEIGHTS * np.nan, "queries": QUERIES, "keys": KEYS}, ["nan"]),
        (
            {"weights": WEIGHTS, "queries": QUERIES, "keys": KEYS, "allowed": np.ones((3, 2), bool)},
            ["(3, 2)", "(2, 3)"],
        ),
        (
            {"weights": WEIGHTS, "queries": QUERIES, "keys": KEYS, "allowed": np.ones((2, 3))},
            ["float64", "bool"],
        ),
        ({"weights": WEIGHTS, "queries": QUERIES, "keys": KEYS, "top": 0.0}, ["0.0"]),
        ({"weights": [["a", "b", "c"]], "queries": ["q"], "keys": KEYS}, ["<U1"]),
    ],
)
def test_what_does_not_fit_together_is_refused_by_name(as_a_user, arguments, named):
    with pytest.raises(RegardError) as error:
        heatmap(**arguments)
    assert all(name in str(error.value) for name in named), str(error.value)


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_a_path_that_cannot_be_written_is_named(tmp_path, kind):
    with pytest.raises(RegardError, match=r"nowhere.*cannot be written"):
        getattr(heatmap(WEIGHTS, QUERIES, KEYS), kind)(tmp_path / "nowhere" / "x")


def test_keys_that_are_set_apart_are_grey_and_named_and_the_others_as_before(tmp_path):
    weights = [[0.6, 0.1, 0.3], [0.0, 0.0, 1.0]]
    options = {"queries": ["la", "mer"], "keys": ["the", "sea", "</s>"]}
    plain, apart = heatmap(weights, **options), heatmap(weights, **options, aside=1)
    layout = apart.layout()
    before, after = cells(plain), cells(apart)
    words = 2 * layout.cell * SCALE
    assert np.array_equal(before[:, :words], after[:, :words])
    grey = after[:, words:]
    assert (grey == grey[..., :1]).all()
    middle = layout.cell * SCALE // 2
    light, dark = grey[middle, middle, 0], grey[layout.cell * SCALE + middle, middle, 0]
    assert 90 < dark < light < 240  # darker with more weight, never as dark as words
    apart.svg(tmp_path / "a.svg")
    drawn = (tmp_path / "a.svg").read_text("utf-8")
    assert "mer → &lt;/s&gt;: 1" in drawn
    assert f'fill="{code((int(dark),) * 3)}"' in drawn
    faint = [line for line in drawn.splitlines() if "<text" in line and code(FAINT) in line]
    assert any("&lt;/s&gt;" in line for line in faint)


def test_not_every_key_can_be_set_apart() -> None:
    with pytest.raises(RegardError, match="aside=2 of 2 keys"):
        heatmap([[0.5, 0.5]], ["a"], ["b", "c"], aside=2)


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
