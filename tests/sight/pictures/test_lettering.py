import numpy as np
import pytest
from PIL import Image

from regard.sight.pictures import lettering
from regard.sight.pictures.lettering import length, letter


@pytest.fixture
def bare(monkeypatch):
    """A machine without any font of its own."""
    monkeypatch.setattr(lettering, "_SYSTEM", ())
    for cached in (lettering._hand, lettering._mask, lettering._run):
        cached.cache_clear()
    yield
    for cached in (lettering._hand, lettering._mask, lettering._run):
        cached.cache_clear()


def drawn(text, size=40):
    image = Image.new("L", (400, 100), 0)
    image = image.convert("RGB")
    letter(image, (10, 50), text, size=size, ink=(255, 255, 255))
    return np.asarray(image.convert("L"), dtype=float)


@pytest.mark.parametrize(
    "pair", ["eé", "uü", "aå", "nñ", "cç", "oø", "lł", "oő", "sš", "AÄ", "iï", "aạ", "eễ"]
)
def test_an_accent_is_put_onto_its_letter_without_any_font_file(bare, pair):
    base, accented = pair
    assert length(base, 40) == length(accented, 40)
    without, with_accent = drawn(base), drawn(accented)
    rows = with_accent.sum(1) > 0
    assert not np.array_equal(without, with_accent)
    assert rows.sum() != (without.sum(1) > 0).sum() or base in "oil"


def test_a_dotless_i_carries_its_accent(bare):
    # A stem and two dots above: three runs of ink along the top row of the dots, none where the single dot was.
    picture = drawn("ï", 80)
    top = picture[np.flatnonzero(picture.sum(1))[0] + 4]
    assert np.count_nonzero(np.diff((top > 100).astype(int)) == 1) == 2


@pytest.mark.parametrize("sign", ["ß", "—", "–", "−", "×", "√", "‖", "τ", "→", "≤", "ᵀ", "²", "₂", "æ", "␣"])
def test_a_sign_is_drawn_by_the_pen_and_not_as_a_box(bare, sign):
    assert lettering._hand(sign, 40.0) == "pen"
    assert drawn(sign).max() > 200


def test_what_no_font_has_is_a_box_with_its_number(bare):
    assert lettering._hand("漢", 40.0) == "box"
    boxes = [drawn(each) for each in "漢字Ж␊"]
    assert all(box.max() > 100 for box in boxes)
    assert len({box.tobytes() for box in boxes}) == 4


def test_text_ends_and_centres_where_it_is_anchored():
    for anchor, left, right in (("left", 198, None), ("right", None, 202)):
        image = Image.new("RGB", (400, 100))
        letter(image, (200, 50), "watchmen", size=30, ink=(255, 255, 255), anchor=anchor)
        columns = np.flatnonzero(np.asarray(image).sum((0, 2)))
        assert left is None or columns[0] >= left
        assert right is None or columns[-1] <= right


def test_text_turned_by_90_degrees_runs_upwards_from_its_place():
    image = Image.new("RGB", (400, 400))
    letter(image, (200, 300), "watchmen", size=30, ink=(255, 255, 255), angle=90)
    rows, columns = np.nonzero(np.asarray(image).sum(2))
    assert 295 < rows.max() <= 301
    assert rows.max() - rows.min() == pytest.approx(length("watchmen", 30), abs=5)
    assert 180 < columns.min() < columns.max() < 222


def test_the_height_of_a_text_does_not_depend_on_its_letters():
    assert lettering._mask("acx", 30.0).height == lettering._mask("Äpgß", 30.0).height


def test_no_text_leaves_no_trace():
    assert drawn("").max() == 0
    assert length("", 30) == 0
