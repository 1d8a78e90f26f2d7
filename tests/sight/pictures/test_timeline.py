"""A timeline: words over seconds, each cell where its moment is."""

import numpy as np
import pytest
from PIL import Image
from sight.pictures.drawn import printed, texts

from regard import RegardError
from regard.sight.pictures.colours import shade
from regard.sight.pictures.scene import Pixels
from regard.sight.pictures.svg import document
from regard.sight.pictures.timeline import timeline

WEIGHTS = np.array([[0.1, 0.7, 0.2], [0.9, 0.3, 0.8]])
HEARD = np.zeros((5, 12), dtype=np.uint8)


def rows_of(picture):
    """The pixels of the picture, from the top: what was heard, and a row a word."""
    found = [mark for mark in picture.scene().marks if isinstance(mark, Pixels)]
    return [mark for mark in found if mark.width > 9]


def test_every_word_has_a_row_whose_colours_are_its_weights():
    picture = timeline(WEIGHTS, ["two", "nine"], HEARD, 0.6)
    heard, two, nine = rows_of(picture)
    for mark, weights in ((two, WEIGHTS[0]), (nine, WEIGHTS[1])):
        assert (mark.pixels[0] == shade(weights / 0.9)).all()
        assert (mark.x, mark.width) == (heard.x, heard.width)  # over the same seconds
    assert heard.y < two.y < nine.y


def test_what_a_pooling_took_has_a_row_of_its_own_scale():
    picture = timeline(WEIGHTS, ["two", "nine"], HEARD, 0.6, pooled=np.array([0.0, 0.25, 0.5]))
    assert (rows_of(picture)[-1].pixels[0] == shade(np.array([0.0, 0.5, 1.0]))).all()
    assert "pooled" in texts(document(picture.scene()))


@pytest.mark.parametrize(
    ("seconds", "ticks"),
    [(0.6, ["0", "0.05", "0.1", "0.6"]), (2.0, ["0", "0.2", "2"]), (100.0, ["0", "10", "100"])],
)
def test_the_axis_is_in_seconds(seconds, ticks):
    picture = timeline(WEIGHTS, ["two", "nine"], HEARD, seconds)
    assert {*ticks, "seconds"} <= {*texts(document(picture.scene()))}
    assert len(picture.ticks()) <= 13
    assert picture.ticks()[-1] <= seconds + 1e-9


def test_it_is_drawn_on_paper_and_in_a_terminal(tmp_path):
    picture = timeline(WEIGHTS, ["two", "nine"], HEARD, 0.6, title="second, 91 %")
    picture.png(tmp_path / "t.png")
    assert Image.open(tmp_path / "t.png").width > 1200
    assert "nine" in printed(picture.terminal())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"weights": WEIGHTS[0]}, "give \\[words, moments\\]"),
        ({"words": ["one"]}, "for 1 words"),
        ({"seconds": 0.0}, "seconds=0.0"),
        ({"seconds": float("nan")}, "seconds=nan"),
        ({"pooled": np.ones(2)}, "pooled \\(2,\\) for 3 moments"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_line(change, said):
    given = {"weights": WEIGHTS, "words": ["two", "nine"], "heard": HEARD, "seconds": 1.0, **change}
    with pytest.raises(RegardError, match=said):
        timeline(**given)
