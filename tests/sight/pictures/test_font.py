from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.cells import cell_len

import regard.sight.pictures
from regard.sight.pictures import font
from regard.sight.pictures.font import amount, length, letters, plain, shape, shorten

FOLDER = Path(regard.sight.pictures.__file__).parent / "dejavu"


@pytest.fixture
def bare(monkeypatch):
    """A machine without any font of its own."""
    monkeypatch.setattr(font, "_SYSTEM", ())
    for cached in (font._face, font._advance, font.shape):
        cached.cache_clear()
    yield
    for cached in (font._face, font._advance, font.shape):
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
    assert font._face(letter) == str(FOLDER / "DejaVuSans.ttf")
    assert drawn(letter).max() > 100


def test_what_no_font_has_is_a_box_with_its_number(bare):
    found = [drawn(each) for each in "漢字␊␍\U0001fae0"]
    assert [font._face(each) for each in "漢字␊␍\U0001fae0"] == [""] * 5
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
    font._font.cache_clear()
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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("watch", "watch"),
        ("a\nb", "a␊b"),
        ("\t", "␉"),
        ("\x1b[31m", "␛[31m"),
        ("\x7f", "␡"),
        ("\u202eevil", "�evil"),
        ("\u2028", "�"),
        ("\ud800", "�"),
        ("Stra\u00dfe", "Straße"),
        ("e\u0301", "é"),
        (" the", "␣the"),
        ("New York ", "New York␣"),
        ("  ", "␣␣"),
        ("", ""),
        ("\u00a0x", "␣x"),
        ("👩\u200d🚀", "👩🚀"),
    ],
)
def test_text_becomes_one_visible_line(text, shown):
    assert plain(text) == shown


def test_long_text_is_cut_with_an_ellipsis():
    assert plain("supercalifragilistic", 8) == "superca…"
    assert plain("exactly8", 8) == "exactly8"
    assert len(plain("x" * 10_000_000, 8)) == 8


@pytest.mark.parametrize("limit", range(1, 9))
def test_wide_letters_count_twice(limit):
    assert cell_len(plain("日本語日本語", limit)) <= limit
    assert plain("日本語日本語", 5) == "日本…"


def test_only_two_accents_stay_on_a_letter():
    assert len(plain("q" + "\u0323" * 50)) == 3


def test_shorten_leaves_what_fits():
    assert shorten("abc", 3) == "abc"
    assert shorten("abcd", 3) == "ab…"


def test_accents_stay_with_their_letter():
    assert letters("aq\u0323b") == ["a", "q\u0323", "b"]


@pytest.mark.parametrize(
    ("weight", "text"), [(1.0, "1"), (0.5, "0.5"), (0.7071, "0.71"), (0.0123, "0.012"), (0, "0")]
)
def test_a_weight_is_written_in_few_digits(weight, text):
    assert amount(weight) == text
