from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from PIL import Image
from sight.pictures.drawn import HOSTILE, elements, printed, texts

from regard import RegardError
from regard.sight.pictures.colours import HUES, PAPER
from regard.sight.pictures.png import SCALE, image
from regard.sight.pictures.scene import Ribbon
from regard.sight.pictures.svg import document
from regard.sight.pictures.word_lines import lines

WEIGHTS = np.array([[0.7, 0.28, 0.02], [0.0, 0.5, 0.5]])
QUERIES, KEYS = ["je", "regarde"], ["I", "look", "."]


def ribbons(picture):
    return [mark for mark in picture.scene().marks if isinstance(mark, Ribbon)]


def test_every_weight_above_the_least_is_a_line_and_no_other():
    said = {ribbon.said for ribbon in ribbons(lines(WEIGHTS, QUERIES, KEYS))}
    assert said == {"je → I: 0.7", "je → look: 0.28", "regarde → look: 0.5", "regarde → .: 0.5"}
    assert len(ribbons(lines(WEIGHTS, QUERIES, KEYS, least=0.6))) == 1


def test_a_larger_weight_is_wider_and_stronger_and_drawn_over_a_smaller_one():
    drawn = ribbons(lines(WEIGHTS, QUERIES, KEYS))
    weights = [float(each.said.split(": ")[1]) for each in drawn]
    assert weights == sorted(weights)
    thick, strong = [each.thick for each in drawn], [each.opacity for each in drawn]
    assert thick == sorted(thick)
    assert strong == sorted(strong)
    assert thick[0] < thick[-1]


def test_a_line_runs_from_the_row_of_its_query_to_that_of_its_key():
    weights = np.zeros((3, 3))
    weights[0, 2] = 1.0
    picture = lines(weights, ["a", "b", "c"], ["d", "e", "f"])
    (ribbon,), page = ribbons(picture), image(picture.scene())
    middle = [(a + b) / 2 * SCALE for a, b in zip(ribbon.start, ribbon.end, strict=True)]
    red, green, blue = page.getpixel((round(middle[0]), round(middle[1])))
    strength = ribbon.opacity
    expected = [255 + strength * (ink - 255) for ink in ribbon.ink]
    assert np.allclose([red, green, blue], expected, atol=3)
    # Half of the picture below the straight line of its first row is empty on the left.
    assert page.getpixel((round(ribbon.start[0] * SCALE) + 20, round(ribbon.end[1] * SCALE))) == PAPER


def test_heads_have_colours_of_their_own_that_are_named():
    both = np.stack([np.eye(3), np.eye(3)[::-1]])
    picture = lines(both, KEYS, KEYS, heads=["same", "mirrored"])
    assert {each.ink for each in ribbons(picture)} == set(HUES[:2])
    assert {"same", "mirrored"} <= set(texts(document(picture.scene())))


def test_the_lines_of_a_word_in_focus_come_last_and_the_others_step_back():
    drawn = ribbons(lines(WEIGHTS, QUERIES, KEYS, focus=0))
    assert [each.said.startswith("je") for each in drawn] == [False, False, True, True]
    assert max(each.opacity for each in drawn[:2]) < min(each.opacity for each in drawn[2:])


@pytest.mark.parametrize("token", HOSTILE)
def test_hostile_words_stay_text(token):
    def drawn(word):
        picture = lines(WEIGHTS, [word, "b"], [word, "d", "e"], title=word, heads=[word], focus=0)
        return elements(picture._repr_html_())

    assert drawn(token) == drawn("harmless")


def test_the_files_are_what_they_are_called(tmp_path):
    picture = lines(torch.tensor(WEIGHTS, dtype=torch.bfloat16, requires_grad=True), QUERIES, KEYS, title="t")
    picture.png(tmp_path / "x.png")
    picture.svg(tmp_path / "x.svg")
    scene = picture.scene()
    assert Image.open(tmp_path / "x.png").size == (SCALE * scene.width, SCALE * scene.height)
    assert ElementTree.parse(tmp_path / "x.svg").getroot().get("width") == str(scene.width)


def test_the_terminal_names_what_each_word_looks_at_most():
    output = printed(lines(WEIGHTS, QUERIES, KEYS).terminal())
    assert output.splitlines()[0].split() == ["je", "→", "I", "0.7", "look", "0.28"]
    one = printed(lines(np.stack([WEIGHTS, WEIGHTS]), QUERIES, KEYS, focus=1).terminal())
    assert "regarde" in one
    assert "je" not in one
    assert "head 1: look 0.5  . 0.5" in one


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"weights": WEIGHTS, "queries": ["a"], "keys": KEYS}, ["(1, 2, 3)", "1 queries", "3 keys"]),
        ({"weights": WEIGHTS[0], "queries": QUERIES, "keys": KEYS}, ["(3,)"]),
        ({"weights": np.zeros((9, 2, 3)), "queries": QUERIES, "keys": KEYS}, ["(9, 2, 3)", "8 heads"]),
        ({"weights": -WEIGHTS, "queries": QUERIES, "keys": KEYS}, ["-0.7"]),
        ({"weights": WEIGHTS, "queries": QUERIES, "keys": KEYS, "focus": 2}, ["focus=2", "0 to 1"]),
        ({"weights": WEIGHTS, "queries": QUERIES, "keys": KEYS, "least": 2}, ["least=2"]),
        ({"weights": WEIGHTS, "queries": QUERIES, "keys": KEYS, "top": -1}, ["top=-1"]),
        ({"weights": WEIGHTS, "queries": QUERIES, "keys": KEYS, "heads": ["a", "b"]}, ["2 names", "1 heads"]),
        ({"weights": np.ones((8, 99, 99)), "queries": ["a"] * 99, "keys": ["b"] * 99}, ["78408", "20000"]),
    ],
)
def test_what_does_not_fit_together_is_refused_by_name(as_a_user, arguments, named):
    with pytest.raises(RegardError) as error:
        lines(**arguments)
    assert all(name in str(error.value) for name in named), str(error.value)
