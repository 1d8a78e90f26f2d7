import pytest
from rich.cells import cell_len

from regard.sight.pictures.labels import amount, letters, plain, shorten


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
