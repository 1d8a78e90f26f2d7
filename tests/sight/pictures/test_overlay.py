import re
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image
from sight.pictures.drawn import HOSTILE, SVG, elements, printed, texts

from regard import RegardError
from regard.sight.pictures.colours import INK
from regard.sight.pictures.drawable import spectrogram
from regard.sight.pictures.overlay import overlay
from regard.sight.pictures.png import SCALE, image
from regard.sight.pictures.scene import Pixels
from regard.sight.pictures.svg import document

RED = np.full((80, 120, 3), (200, 40, 40), dtype=np.uint8)
CORNER = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])


def centres(pixels, rows, columns):
    """The colour in the middle of each patch."""
    height, width = pixels.shape[:2]
    return [
        [tuple(pixels[int((i + 0.5) * height / rows), int((j + 0.5) * width / columns)].tolist()) for j in range(columns)]
        for i in range(rows)
    ]  # fmt: skip


def test_the_image_stays_as_it_is_where_the_weight_is_largest_and_darkens_where_there_is_none():
    found = centres(overlay(RED, CORNER, smooth=False, alpha=0.5).lit(0), 2, 3)
    grey = 0.299 * 200 + 0.587 * 40 + 0.114 * 40
    night = [
        0.5 * channel + 0.5 * (0.25 * grey + 0.75 * ink) for channel, ink in zip(RED[0, 0], INK, strict=True)
    ]
    assert found[0][0] == (200, 40, 40)
    assert np.allclose(found[1][2], night, atol=1)
    assert len({*found[0][1:], *found[1]}) == 1


def test_blocky_patches_have_edges_and_smooth_ones_have_none():
    blocky, smooth = (overlay(RED, CORNER, smooth=smooth).lit(0).astype(int) for smooth in (False, True))
    assert len(np.unique(blocky[..., 0])) == 2
    assert np.abs(np.diff(smooth[..., 0], axis=1)).max() < 8
    # Half way between the first two patches their levels are mixed in halves.
    height, width = smooth.shape[:2]
    assert smooth[height // 8, width // 3, 0] == pytest.approx(
        (smooth.max() + smooth[..., 0].min()) / 2, abs=3
    )


def test_alpha_0_leaves_the_image_alone():
    assert (overlay(RED, CORNER, alpha=0).lit(0) == (200, 40, 40)).all()


def test_a_flat_list_is_read_row_by_row_and_special_tokens_are_left_out():
    flat = np.arange(6.0)
    assert overlay(RED, flat, grid=(2, 3)).grids.tolist() == [[[0, 1, 2], [3, 4, 5]]]
    assert overlay(RED, np.r_[99.0, flat], grid=(2, 3), special=1).grids.tolist() == [[[0, 1, 2], [3, 4, 5]]]
    both = overlay(RED, np.stack([flat, flat[::-1]]), grid=(3, 2), words=["a", "b"])
    assert both.grids[1].tolist() == [[5, 4], [3, 2], [1, 0]]


def test_each_word_has_its_picture_after_the_bare_image():
    weights = np.zeros((2, 2, 2))
    weights[0, 0, 0], weights[1, 1, 1] = 0.25, 0.5
    picture = overlay(np.full((64, 64), 200, np.uint8), weights, words=["here", "there"], smooth=False)
    scene = picture.scene()
    bare, first, second = [mark for mark in scene.marks if isinstance(mark, Pixels)]
    page = np.asarray(image(scene))

    def lit(mark):
        at = [round(edge * SCALE) for edge in (mark.x, mark.y, mark.width, mark.height)]
        part = page[at[1] : at[1] + at[3], at[0] : at[0] + at[2]]
        return [[spot == (200, 200, 200) for spot in row] for row in centres(part, 2, 2)]

    assert lit(bare) == [[True, True], [True, True]]
    assert lit(first) == [[True, False], [False, False]]
    assert lit(second) == [[False, False], [False, True]]
    assert {"here", "0.25", "there", "0.5"} <= set(texts(document(scene)))


def test_top_lights_every_word_on_one_scale():
    weights = np.stack([CORNER, 0.5 * CORNER])
    picture = overlay(RED, weights, words=["a", "b"], smooth=False, top=1.0)
    assert picture.lit(0)[0, 0, 0] > picture.lit(1)[0, 0, 0]


def test_wide_pictures_stand_below_one_another():
    scene = overlay(
        spectrogram(np.random.rand(8, 80)), np.ones((2, 5)), grid=(1, 5), words=["a", "b"]
    ).scene()
    parts = [mark for mark in scene.marks if isinstance(mark, Pixels)]
    assert len(parts) == 3
    assert len({mark.x for mark in parts}) == 1
    assert [mark.y for mark in parts] == sorted({mark.y for mark in parts})


@pytest.mark.parametrize("word", HOSTILE)
def test_hostile_words_stay_text(word):
    def drawn(word):
        return elements(overlay(RED, [CORNER], words=[word], title=word, note=word)._repr_html_())

    assert drawn(word) == drawn("harmless")


def test_the_svg_holds_its_images(tmp_path):
    overlay(RED, CORNER).svg(tmp_path / "x.svg")
    overlay(RED, CORNER).png(tmp_path / "x.png")
    (held,) = ElementTree.parse(tmp_path / "x.svg").iter(f"{SVG}image")
    assert held.get("href").startswith("data:image/png;base64,")
    assert Image.open(tmp_path / "x.png").format == "PNG"


@pytest.mark.parametrize("width", [20, 80])
@pytest.mark.parametrize("system", [None, "truecolor"])
def test_the_terminal_shows_each_word_within_its_width(width, system):
    output = printed(
        overlay(RED, [CORNER, CORNER], words=["one", "two"]).terminal(), width=width, system=system
    )
    bare = re.sub(r"\x1b\[[\d;]*m", "", output)
    assert "one" in bare
    assert "two" in bare
    assert max(map(len, bare.splitlines())) <= width
    assert ("█" in bare) == (system is None)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"image": RED, "weights": np.ones(197), "grid": (14, 14)}, ["197", "14 × 14", "196", "special"]),
        (
            {"image": RED, "weights": np.ones(196), "grid": (14, 14), "special": 1},
            ["196", "special=1", "197"],
        ),
        ({"image": RED, "weights": np.ones(9)}, ["(9,)", "grid"]),
        ({"image": RED, "weights": np.ones((3, 2, 2)), "words": ["a"]}, ["(3, 2, 2)", "1 words"]),
        ({"image": RED, "weights": np.ones((2, 2)), "special": 1}, ["special=1"]),
        ({"image": RED, "weights": -np.ones((2, 2))}, ["-1"]),
        ({"image": RED, "weights": np.ones((2, 2)), "alpha": 2}, ["alpha=2"]),
        ({"image": RED, "weights": np.ones((2, 2)), "top": 0}, ["top=0"]),
        ({"image": np.zeros((4, 4, 2)), "weights": np.ones((2, 2))}, ["(4, 4, 2)"]),
        ({"image": np.full((4, 4), 1.5), "weights": np.ones((2, 2))}, ["1.5", "normalisation"]),
        ({"image": np.full((4, 4), np.nan), "weights": np.ones((2, 2))}, ["nan"]),
    ],
)
def test_what_does_not_fit_together_is_refused_by_name(as_a_user, arguments, named):
    with pytest.raises(RegardError) as error:
        overlay(**arguments)
    assert all(name in str(error.value) for name in named), str(error.value)
