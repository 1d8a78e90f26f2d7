import random
from collections import Counter

import pytest
from num2words import num2words

from regard import RegardError
from regard.data.numbers import LARGEST, draw_numbers, english, french, number_links, number_pairs, part_of

BOUNDARIES = sorted(
    {
        number
        for power in range(3, 9)
        for factor in (1, 2, 8, 9, 10, 11, 21, 71, 80, 81, 91, 99, 100, 101, 180, 200, 201, 280, 300, 999)
        for more in (
            -1,
            0,
            1,
            16,
            21,
            71,
            80,
            81,
            99,
            100,
            180,
            200,
            280,
            1000,
            1080,
            80_000,
            80_080,
            200_200,
        )
        if (number := factor * 10**power + more) <= LARGEST
    }
)


def assert_as_others_write_it(number: int) -> None:
    assert english(number) == num2words(number, lang="en").replace(",", "")
    assert french(number) == num2words(number, lang="fr")


@pytest.mark.parametrize(
    ("number", "in_english", "in_french"),
    [
        (0, "zero", "zéro"),
        (21, "twenty-one", "vingt et un"),
        (71, "seventy-one", "soixante et onze"),
        (80, "eighty", "quatre-vingts"),
        (81, "eighty-one", "quatre-vingt-un"),
        (91, "ninety-one", "quatre-vingt-onze"),
        (201, "two hundred and one", "deux cent un"),
        (999, "nine hundred and ninety-nine", "neuf cent quatre-vingt-dix-neuf"),
        (1001, "one thousand and one", "mille un"),
        (80_000, "eighty thousand", "quatre-vingt mille"),
        (200_000, "two hundred thousand", "deux cent mille"),
        (1_000_000, "one million", "un million"),
        (80_000_000, "eighty million", "quatre-vingts millions"),
        (200_200_200, "two hundred million two hundred thousand two hundred", "deux cents millions deux cent mille deux cents"),
    ],
)  # fmt: skip
def test_numbers_as_grammars_write_them(number, in_english, in_french):
    assert english(number) == in_english
    assert french(number) == in_french


@pytest.mark.slow
def test_all_numbers_below_ten_thousand_are_as_others_write_them():
    for number in range(10_000):
        assert_as_others_write_it(number)


def test_numbers_at_the_boundaries_are_as_others_write_them():
    for number in BOUNDARIES:
        assert_as_others_write_it(number)


def test_random_numbers_are_as_others_write_them():
    rng = random.Random(0)
    for _ in range(1500):
        assert_as_others_write_it(rng.randint(0, LARGEST))
        assert_as_others_write_it(rng.randint(0, 10 ** rng.randint(1, 9) - 1))


@pytest.mark.parametrize("number", [-1, LARGEST + 1])
def test_a_number_without_words_is_refused(number):
    for words in (english, french):
        with pytest.raises(RegardError, match=str(number)):
            words(number)


def test_no_number_held_out_is_ever_in_training():
    drawn = {
        part: {*draw_numbers(2000, seed=1, part=part, largest=99_999)} for part in ("train", "valid", "test")
    }
    assert not drawn["train"] & drawn["test"]
    assert not drawn["train"] & drawn["valid"]
    assert not drawn["valid"] & drawn["test"]
    for part, numbers in drawn.items():
        assert {part_of(number) for number in numbers} == {part}


def test_the_division_is_fixed_and_one_in_ten():
    counts = Counter(part_of(number) for number in range(20_000))
    assert abs(counts["test"] - 2000) < 170  # four standard deviations
    assert abs(counts["valid"] - 2000) < 170
    # These are written down because a run of last year must not have trained on a test number of today.
    assert [n for n in range(60) if part_of(n) == "test"] == [9, 21, 24, 37, 38, 43, 49, 54]
    assert [n for n in range(60) if part_of(n) == "valid"] == [8, 15, 28, 53, 57]


@pytest.mark.parametrize("largest", [9_999, 999_999, LARGEST])
def test_training_meets_every_word_there_is(largest):
    rng = random.Random(1)
    everything = [*range(1000), *(rng.randint(0, largest) for _ in range(5000))]
    for side, words in enumerate((english, french)):
        wanted = {word for number in everything for word in words(number).replace("-", " ").split()}
        met = {
            word
            for pair in number_pairs(3000, seed=2, largest=largest)
            for word in pair[side].replace("-", " ").split()
        }
        assert met >= wanted


def test_the_number_of_digits_is_uniform():
    digits = Counter(len(str(number)) for number in draw_numbers(18_000, seed=3))
    assert {*digits} == {*range(1, 10)}
    for count in digits.values():  # 2000 each, but for how many of the short ones are held out
        assert abs(count - 2000) < 400


def test_numbers_of_a_length_are_uniform():
    numbers = [number for number in draw_numbers(9000, seed=4, largest=999) if number > 99]
    leading = Counter(number // 100 for number in numbers)
    assert max(leading.values()) < 1.35 * min(leading.values())
    assert {*map(part_of, range(10))} == {"train", "valid", "test"}


def test_held_out_numbers_are_distinct_and_of_every_length():
    numbers = draw_numbers(500, seed=5, part="test", largest=999_999)
    assert len({*numbers}) == 500
    assert max(numbers) <= 999_999
    assert {len(str(number)) for number in numbers} == {1, 2, 3, 4, 5, 6}


def test_the_same_seed_draws_the_same_numbers():
    assert draw_numbers(50, seed=6) == draw_numbers(50, seed=6) != draw_numbers(50, seed=7)
    assert number_pairs(50, seed=6) == [(english(n), french(n)) for n in draw_numbers(50, seed=6)]


def test_more_numbers_than_there_are_is_refused():
    few = [n for n in range(100) if part_of(n) == "test"]
    assert sorted(draw_numbers(len(few), seed=0, part="test", largest=99)) == few
    with pytest.raises(RegardError, match=f"only {len(few)} numbers"):
        draw_numbers(len(few) + 1, seed=0, part="test", largest=99)


def test_a_largest_number_inside_a_length_is_kept_to():
    assert max(draw_numbers(2000, seed=0, largest=123)) == 123


@pytest.mark.parametrize(
    ("number", "wanted"),
    [
        (0, "zéro=zero"),
        (21, "vingt=twenty-one et=twenty-one un=twenty-one"),
        (80, "quatre-vingts=eighty"),
        (100, "cent=one/hundred"),
        (171, "cent=one/hundred soixante=seventy-one et=seventy-one onze=seventy-one"),
        (1001, "mille=one/thousand un=one"),
        (2300, "deux=two mille=thousand trois=three cents=hundred"),
        (101_000, "cent=one/hundred un=one mille=thousand"),
        (1_000_000, "un=one million=million"),
        (
            200_080_007,
            "deux=two cents=hundred millions=million quatre-vingt=eighty mille=thousand sept=seven",
        ),
    ],
)
def test_the_links_are_those_a_person_would_draw(number, wanted):
    here = english(number).split()
    links = zip(french(number).split(), number_links(number), strict=True)
    assert " ".join(f"{word}={'/'.join(here[at] for at in sorted(each))}" for word, each in links) == wanted


def test_links_reach_every_english_word_but_and_in_order():
    for number in [*range(2000), *draw_numbers(500, seed=3)]:
        here, links = english(number).split(), number_links(number)
        assert len(links) == len(french(number).split())
        assert {at for each in links for at in each} == {at for at, word in enumerate(here) if word != "and"}
        assert [min(each) for each in links] == sorted(min(each) for each in links)
