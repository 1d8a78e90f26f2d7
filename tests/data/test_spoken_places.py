"""A spoken digit and a row of written ones: the label is the place, and neither alone can tell it."""

import numpy as np
import pytest
import torch

from regard import RegardError
from regard.data.batches import END, Feed
from regard.data.spoken_places import PLACES, WORDS, SpokenPlaceFeed
from regard.data.tokenizer import Tokenizer

SAID = torch.tensor([n * 3 % 10 for n in range(40)])
SOUNDS = [torch.full((5 + n,), n / 100) for n in range(40)]
TOKENIZER = Tokenizer.train(WORDS, kind="word")


def feed(**settings):
    return SpokenPlaceFeed(SOUNDS, SAID, **{"tokenizer": TOKENIZER, "seed": 3, **settings})


def drawn(count: int, **settings):
    sounds, texts, places = feed(**settings).drawn(range(count))
    return SAID[sounds].numpy(), [text.split() for text in texts], np.array(places)


def test_the_label_is_the_place_of_the_word_that_is_said():
    said, texts, places = drawn(2_000, words=5)
    for digit, words, place in zip(said, texts, places, strict=True):
        assert words[place] == WORDS[digit]
        assert len(set(words)) == 5
    assert np.bincount(places).tolist() == [400] * 5
    assert len(PLACES) == len(WORDS) == 10


def test_neither_the_sound_nor_the_text_alone_can_tell():
    """The best guess from the digit, or from the words that stand at the places, found on these very samples."""
    said, texts, places = drawn(40_000)
    counts = np.zeros((4, 10))
    np.add.at(counts, (places, said), 1)
    assert counts.max(0).sum() / 40_000 < 0.27
    for number in range(4):
        counts = np.zeros((4, 10))
        np.add.at(counts, (places, [WORDS.index(words[number]) for words in texts]), 1)
        assert counts.max(0).sum() / 40_000 < 0.27


def test_shuffled_words_are_the_same_words_and_tell_nothing_about_the_label():
    whole, shuffled = drawn(8_000), drawn(8_000, without="order")
    assert (whole[0] == shuffled[0]).all()
    assert (whole[2] == shuffled[2]).all()
    assert [sorted(words) for words in whole[1]] == [sorted(words) for words in shuffled[1]]
    rows = zip(shuffled[0], shuffled[1], shuffled[2], strict=True)
    found = np.mean([words.index(WORDS[digit]) == place for digit, words, place in rows])
    assert found == pytest.approx(0.25, abs=0.02)


def test_a_batch_holds_what_was_drawn_and_no_epoch_repeats_it():
    some = feed(rows=8, samples=20)
    assert isinstance(some, Feed)
    assert [n for batch in some.order(3) for n in batch] == [*range(60, 80)]
    samples = [*some.order(3)[1]]
    sounds, texts, places = some.drawn(samples)
    batch = some.batch(samples)
    assert (batch.inputs.first.lengths - 5).tolist() == sounds
    assert batch.labels.tolist() == places
    assert batch.inputs.second.tokens.tolist() == [[*TOKENIZER.encode(text), END] for text in texts]
    assert some.drawn(samples[3:4]) == ([sounds[3]], [texts[3]], [places[3]])


def test_what_is_removed_brings_nothing():
    without_text = feed(without="text").batch(range(6)).inputs.second
    assert without_text.tokens.tolist() == [[END]] * 6
    silent = feed(without="sound").batch(range(6)).inputs.first
    assert silent.samples.abs().max() == 0
    assert len(set(silent.lengths.tolist())) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"words": 1}, "words=1: a text has from 2 to 10"),
        ({"words": 11}, "words=11"),
        ({"samples": 0}, "samples=0"),
    ],
)
def test_a_wrong_setting_is_refused_in_one_line(change, said):
    with pytest.raises(RegardError, match=said):
        feed(**change)


def test_sounds_that_are_not_of_all_digits_are_refused():
    with pytest.raises(RegardError, match="39 sounds and 40 digits"):
        SpokenPlaceFeed(SOUNDS[:-1], SAID, tokenizer=TOKENIZER, seed=1)
    with pytest.raises(RegardError, match="give recordings of all from 0 to 9"):
        SpokenPlaceFeed(SOUNDS, SAID % 5, tokenizer=TOKENIZER, seed=1)
