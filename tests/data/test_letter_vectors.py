import math
from collections import Counter

import pytest
import torch

from regard import RegardError, ScaledDot
from regard.data.letter_vectors import pieces, spell


def test_a_word_is_its_pieces_with_its_ends_marked():
    assert pieces("the") == Counter(["‹t", "th", "he", "e›", "‹th", "the", "he›"])
    assert pieces("aaa", sizes=(2,)) == Counter({"‹a": 1, "aa": 2, "a›": 1})


def test_a_dot_product_counts_shared_pieces():
    vectors = spell(["watch", "watches", "the"]).double()
    shared = (vectors @ vectors.mT) / (vectors[0] @ vectors[0]) * pieces("watch").total()
    # watch and watches: ‹w wa at tc ch and ‹wa wat atc tch; watches and the: he.
    assert shared[0, 1].item() == pytest.approx(9)
    assert shared[0, 2].item() == 0
    assert shared[0, 0].item() == pytest.approx(11)


@pytest.mark.parametrize("words", [["a"], ["one", "two"], [f"word{n}" for n in range(60)], ["😀", "日本"]])
def test_a_word_scores_the_loudness_with_itself_on_average(words):
    vectors = spell(words, loudness=2.5)
    assert ScaledDot()(vectors, vectors).diagonal().mean().item() == pytest.approx(2.5, rel=1e-5)
    assert vectors.shape[-1] == len(set().union(*map(pieces, words)))


def test_the_same_words_have_the_same_vectors_each_time():
    words = ["who", "watches", "the", "watchmen"]
    assert torch.equal(spell(words), spell(words))
    assert torch.equal(spell(["x", "x"])[0], spell(["x", "x"])[1])


def test_words_of_one_letter_have_pieces_too():
    assert math.isfinite(spell(["a", "b"]).sum().item())


@pytest.mark.parametrize(
    ("words", "options", "named"),
    [
        ([], {}, r"\[\]"),
        ("the", {}, "'the'"),
        (["a"], {"loudness": 0.0}, "0.0"),
        (["a"], {"sizes": (9,)}, "9"),
    ],
)
def test_what_cannot_be_spelled_is_refused_by_name(words, options, named):
    with pytest.raises(RegardError, match=named):
        spell(words, **options)
