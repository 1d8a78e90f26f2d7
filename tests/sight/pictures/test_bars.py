from xml.etree import ElementTree

import pytest
from sight.pictures.drawn import HOSTILE, elements, printed, texts

from regard import RegardError
from regard.sight.pictures.bars import Bar, Bars
from regard.sight.pictures.colours import HUES
from regard.sight.pictures.scene import Box, Stroke
from regard.sight.pictures.svg import document


def drawn(*groups, **settings):
    return Bars(groups=[(name, bars) for name, bars in groups], **settings)


TWO = drawn(
    ("first", [Bar(name="a", amount=1.0), Bar(name="b", amount=4.0, ends=(3.0, 4.5), said="four")]),
    ("second", [Bar(name="b", amount=2.0)]),
)


def boxes(picture):
    return [mark for mark in picture.scene().marks if isinstance(mark, Box)]


def test_a_bar_is_as_long_as_its_amount():
    assert [box.width for box in boxes(TWO)] == pytest.approx([105, 420, 210])


def test_a_name_has_one_colour_in_every_group():
    assert [box.fill for box in boxes(TWO)] == [HUES[0], HUES[1], HUES[1]]


def test_ends_are_drawn_to_the_same_scale():
    (box,) = (box for box in boxes(TWO) if box.width == pytest.approx(420))
    (line, *_) = (mark for mark in TWO.scene().marks if isinstance(mark, Stroke))
    assert [x - box.x for x, _ in line.places] == pytest.approx([3 * 105, 4.5 * 105])


def test_ends_far_beyond_every_bar_are_cut_off():
    picture = drawn(("", [Bar(name="a", amount=1.0, ends=(0.5, 1000.0))]))
    assert boxes(picture)[0].width == pytest.approx(420)
    assert picture.scene().width < 700


def test_the_terminal_shows_bars_and_what_is_said():
    lines = printed(TWO.terminal()).splitlines()
    assert [line.count("█") for line in lines if "█" in line] == [6, 24, 12]
    assert "four" in lines[2]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_stays_a_text(text):
    hostile = drawn((text, [Bar(name=text, amount=1.0, said=text)]), title=text, note=text)
    plain = drawn(("x", [Bar(name="x", amount=1.0, said="x")]), title="x", note="x")
    assert elements(document(hostile.scene())) == elements(document(plain.scene()))
    assert ElementTree.fromstring(document(hostile.scene())) is not None
    assert len(texts(document(hostile.scene()))) == 5


@pytest.mark.parametrize("amounts", [[], [-1.0], [float("nan")], [float("inf")]])
def test_amounts_that_cannot_be_drawn_are_refused(amounts):
    with pytest.raises(RegardError, match="at least one amount"):
        drawn(("", [Bar(name="a", amount=amount) for amount in amounts]))


def test_nothing_but_zeros_can_be_drawn():
    assert [box.width for box in boxes(drawn(("", [Bar(name="a", amount=0.0)])))] == [1.0]
