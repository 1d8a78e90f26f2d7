import re
from collections import Counter
from itertools import chain

import pytest
import torch

from regard import RegardError
from regard.data.augment import Jitter
from regard.data.batches import END, Feed
from regard.data.digits import digit_split, digits
from regard.data.numbers import french
from regard.data.reader import Hand, ReaderFeed, spoken

SPLIT = digit_split()
TRAIN, TEST = Hand(SPLIT.train), Hand(SPLIT.test)


class Letters:
    def encode_all(self, texts):
        return [[*map(ord, text)] for text in texts]


def said(number: int) -> str:
    return " ".join(f"{each.word}:{','.join(map(str, each.digits))}" for each in spoken(number))


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0, "zéro:0"),
        (7, "sept:0"),
        (10, "dix:0,1"),
        (11, "onze:0,1"),
        (16, "seize:0,1"),
        (17, "dix:0 sept:1"),
        (20, "vingt:0"),
        (21, "vingt:0 et:1 un:1"),
        (42, "quarante:0 deux:1"),
        (60, "soixante:0"),
        (70, "soixante:0 dix:0,1"),
        (71, "soixante:0 et:1 onze:0,1"),
        (72, "soixante:0 douze:0,1"),
        (77, "soixante:0 dix:0 sept:1"),
        (80, "quatre:0 vingts:0"),
        (81, "quatre:0 vingt:0 un:1"),
        (84, "quatre:0 vingt:0 quatre:1"),
        (90, "quatre:0 vingt:0 dix:0,1"),
        (91, "quatre:0 vingt:0 onze:0,1"),
        (99, "quatre:0 vingt:0 dix:0 neuf:1"),
        (100, "cent:0"),
        (101, "cent:0 un:2"),
        (110, "cent:0 dix:1,2"),
        (200, "deux:0 cents:0"),
        (342, "trois:0 cent:0 quarante:1 deux:2"),
        (480, "quatre:0 cent:0 quatre:1 vingts:1"),
        (1000, "mille:0"),
        (1001, "mille:0 un:3"),
        (2345, "deux:0 mille:0 trois:1 cent:1 quarante:2 cinq:3"),
        (10_000, "dix:0,1 mille:1"),
        (71_000, "soixante:0 et:1 onze:0,1 mille:1"),
        (100_000, "cent:0 mille:2"),
        (201_100, "deux:0 cent:0 un:2 mille:2 cent:3"),
        (994_080, "neuf:0 cent:0 quatre:1 vingt:1 quatorze:1,2 mille:2 quatre:4 vingts:4"),
    ],
)
def test_which_digits_a_word_renders_by_hand(number, expected):
    assert said(number) == expected


def test_the_words_are_those_of_the_number_and_stand_where_they_are_said_to():
    for number in [*range(1_100), *range(1_100, 1_000_000, 997), 999_999]:
        words = spoken(number)
        assert [each.word for each in words] == re.split("[ -]", french(number))
        assert all(french(number)[each.start :].startswith(each.word) for each in words)


def test_every_digit_but_zeros_is_rendered_by_a_word():
    for number in range(1, 1_000_000, 613):
        rendered = {digit for each in spoken(number) for digit in each.digits}
        nonzero = {place for place, digit in enumerate(str(number)) if digit != "0"}
        assert nonzero <= rendered <= set(range(len(str(number))))


def test_a_strip_shows_its_number_in_the_hands_it_was_given():
    pixels, labels = digits()
    known = {pixels[sample].numpy().tobytes(): sample for sample in range(1797)}
    for hand, part in [(TRAIN, SPLIT.train), (TEST, SPLIT.test)]:
        strips = hand.strips(range(300), seed=4)
        allowed = {pixels[sample].numpy().tobytes() for sample in part}
        for row, number in zip(strips.pixels, strips.numbers, strict=True):
            for place, shown in enumerate(f"{number:>6}"):
                piece = row[:, :, 8 * place : 8 * place + 8].contiguous().numpy().tobytes()
                if shown == " ":
                    assert not any(piece)
                else:
                    assert piece in allowed
                    assert labels[known[piece]] == int(shown)


def test_lengths_digits_and_hands_are_drawn_uniformly():
    strips = TRAIN.strips(range(12_000), seed=1)
    shown = [str(number) for number in strips.numbers]
    assert all(1_800 < count < 2_200 for count in Counter(map(len, shown)).values())
    assert not any(text.startswith("0") and len(text) > 1 for text in shown)
    first = Counter(text[0] for text in shown if len(text) > 1)
    last = Counter(text[-1] for text in shown if len(text) > 1)
    assert sorted(first) == [*"123456789"]
    assert all(abs(count - 10_000 / 9) < 130 for count in first.values())
    assert all(abs(last[digit] - 1_000) < 130 for digit in "0123456789")
    pieces = torch.cat([strips.pixels[:, 0, :, 40:], strips.pixels[:, 0, :, 32:40]]).contiguous()
    seen = {piece.numpy().tobytes() for piece in pieces if piece.any()}
    assert len(seen) == len(SPLIT.train)  # every hand it was given


def test_strips_are_a_pure_function_of_seed_and_number():
    jitter = Jitter(shift=1, turn=8)
    first = TRAIN.strips([5, 900, 7], seed=3, jitter=jitter)
    again = TRAIN.strips([900], seed=3, jitter=jitter)
    assert again.numbers[0] == first.numbers[1]
    torch.testing.assert_close(again.pixels[0], first.pixels[1], rtol=0, atol=1e-6)
    assert TRAIN.strips([5, 900, 7], seed=4).numbers != first.numbers
    plain = TRAIN.strips([5, 900, 7], seed=3)
    assert plain.numbers == first.numbers
    assert not torch.allclose(plain.pixels, first.pixels)


def test_jitter_moves_no_digit_into_its_neighbour():
    strips = TRAIN.strips(range(200), seed=2, jitter=Jitter(shift=2, turn=20, scale=0.2))
    for row, number in zip(strips.pixels, strips.numbers, strict=True):
        assert not row[:, :, : 48 - 8 * len(str(number))].any()


def test_the_feed_gives_strips_with_their_words_and_never_the_same():
    feed = ReaderFeed(TRAIN, Letters(), seed=0, rows=16, samples=50)
    assert isinstance(feed, Feed)
    assert [len(batch) for batch in feed.order(0)] == [16, 16, 16, 2]
    assert sorted(chain(*feed.order(2))) == [*range(100, 150)]
    batch = feed.batch([3, 120])
    strips = TRAIN.strips([3, 120], seed=0)
    assert torch.equal(batch.source.pixels, strips.pixels)
    for row, length, number in zip(batch.target.tokens, batch.target.lengths, strips.numbers, strict=True):
        assert row[:length].tolist() == [*map(ord, french(number)), END]


def test_what_cannot_be_written_is_refused():
    with pytest.raises(RegardError, match="none is a 0"):
        Hand([1, 2])
    with pytest.raises(RegardError, match="from 0 to 1796"):
        Hand([5000])
    with pytest.raises(RegardError, match="number 1000000"):
        spoken(1_000_000)
    with pytest.raises(RegardError, match="rows=0"):
        ReaderFeed(TRAIN, Letters(), seed=0, rows=0)
