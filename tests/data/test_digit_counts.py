from math import comb

import pytest
import torch

from regard import RegardError
from regard.data.batches import each_once
from regard.data.digit_counts import (
    CLASSES,
    DIGITS,
    EXAMPLE,
    FIRST,
    LABELS,
    VOCABULARY,
    CountFeed,
    count_samples,
    rows_of_digits,
    samples_at,
)


def digits(labelled) -> list[list[int]]:
    return (labelled.inputs.tokens - FIRST).tolist()


def test_the_label_says_whether_there_are_more_fours_than_twos():
    samples = count_samples(3000, seed=1)
    for row, label in zip(digits(samples), samples.labels.tolist(), strict=True):
        assert label == int(row.count(4) > row.count(2))
    ties = [row.count(4) == row.count(2) > 0 for row in digits(samples)]
    assert any(ties)


def test_ten_digits_and_no_special_token():
    samples = count_samples(500, seed=2)
    assert samples.inputs.tokens.shape == (500, DIGITS)
    assert samples.inputs.lengths.tolist() == [10] * 500
    assert {*samples.inputs.tokens.flatten().tolist()} == {*range(FIRST, VOCABULARY)}
    assert (FIRST, VOCABULARY, CLASSES) == (4, 14, 2)


def test_digits_are_uniform_and_independent():
    samples = 40_000
    tokens = count_samples(samples, seed=3).inputs.tokens - FIRST
    for place in range(DIGITS):  # χ² with 9 degrees of freedom exceeds 33.7 once in ten thousand
        counts = torch.bincount(tokens[:, place], minlength=10).double()
        assert ((counts - samples / 10) ** 2 / (samples / 10)).sum() < 33.7
    for a, b in [(0, 1), (3, 9)]:  # 99 degrees: 161.3
        counts = torch.bincount(tokens[:, a] * 10 + tokens[:, b], minlength=100).double()
        assert ((counts - samples / 100) ** 2 / (samples / 100)).sum() < 161.3
    counts = torch.bincount(tokens[:-1, 0] * 10 + tokens[1:, 0], minlength=100).double()
    assert ((counts - samples / 100) ** 2 / (samples / 100)).sum() < 161.3


def test_a_sample_is_not_its_neighbour_moved_along():
    tokens = count_samples(2000, seed=3).inputs.tokens
    for places in range(1, DIGITS):
        alike = (tokens[1:, :-places] == tokens[:-1, places:]).double().mean().item()
        assert abs(alike - 0.1) < 0.03  # four standard errors of 2000 digits


def test_the_label_is_as_frequent_as_chance_has_it():
    ties = sum(comb(10, k) * comb(10 - k, k) * 8 ** (10 - 2 * k) for k in range(6)) / 10**10
    share = count_samples(100_000, seed=4).labels.double().mean().item()
    assert abs(share - (1 - ties) / 2) < 0.006  # four standard errors


def test_a_sample_is_a_pure_function_of_seed_and_number():
    torch.manual_seed(1)
    some = digits(count_samples(100, seed=5))
    torch.manual_seed(2)
    assert digits(samples_at([7, 99, 7], seed=5)) == [some[7], some[99], some[7]]
    assert digits(count_samples(100, seed=6)) != some


def test_rows_of_neighbouring_seeds_do_not_repeat_each_other():
    rows = [{tuple(row) for row in digits(count_samples(2000, seed=seed))} for seed in (0, 1, 2, 10, 20)]
    for n, row in enumerate(rows):
        assert not any(row & other for other in rows[:n])


def test_fresh_data_never_ends():
    feed = CountFeed(seed=0, rows=30, samples=100)
    epochs = [[n for batch in feed.order(epoch) for n in batch] for epoch in range(3)]
    assert [n for epoch in epochs for n in epoch] == [*range(300)]
    assert [len(batch) for batch in feed.order(1)] == [30, 30, 30, 10]
    assert [len(batch) for batch in each_once(feed)] == [30, 30, 30, 10]
    assert digits(feed.batch(feed.order(1)[0])) == digits(samples_at(range(100, 130), seed=0))


def test_rows_of_digits_are_read_with_and_without_spaces_and_commas():
    rows = rows_of_digits([EXAMPLE, "1720213486", " 1,7, 2,0,2,1,3,4,8,6"])
    assert (rows.tokens - FIRST).tolist() == [[1, 7, 2, 0, 2, 1, 3, 4, 8, 6]] * 3
    assert rows.lengths.tolist() == [10, 10, 10]
    assert rows_of_digits([]).tokens.shape == (0, 10)
    assert LABELS == ("no", "yes")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 7 2", "'1 7 2' has 3 digits: give 10"),
        ("12345678901", "has 11 digits: give 10"),
        ("", "'': give 10 digits"),
        ("one two", "'one two': give 10 digits"),
        ("1 7 2 0 2 1 3 4 8 ٦", "give 10 digits"),
        ("-1 7 2 0 2 1 3 4 8 6", "give 10 digits"),
    ],
)
def test_what_is_not_ten_digits_is_refused(text, said):
    with pytest.raises(RegardError, match=said) as refused:
        rows_of_digits([EXAMPLE, text])
    assert "\n" not in str(refused.value)
