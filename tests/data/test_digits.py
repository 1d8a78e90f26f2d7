import hashlib

import torch

from regard.data.digits import digit_split, digits, stratified


def test_the_digits_are_those_of_the_uci():
    pixels, labels = digits()
    assert pixels.shape == (1797, 1, 8, 8)
    assert labels.bincount().tolist() == [
        178,
        182,
        177,
        183,
        181,
        182,
        181,
        179,
        174,
        180,
    ]  # as their page says
    assert (pixels * 16).sum().item() == 561_718
    assert (pixels[0, 0, 0] * 16).tolist() == [0, 0, 5, 13, 9, 1, 0, 0]
    assert pixels.min() == 0
    assert pixels.max() == 1


def test_who_changes_what_he_got_changes_nobody_elses():
    digits()[0].zero_()
    assert digits()[0].sum() > 0


def test_the_split_is_a_partition_with_each_digit_in_proportion():
    labels = digits()[1]
    split = digit_split()
    parts = split.train, split.valid, split.test
    assert sorted(sum(parts, ())) == [*range(1797)]
    assert [*map(len, parts)] == [1259, 179, 359]
    assert sorted(split.train + split.valid) == [*split.all_but_test]
    for part, share in zip(parts, (0.7, 0.1, 0.2), strict=True):
        counts = labels[list(part)].bincount(minlength=10)
        assert (counts - share * labels.bincount()).abs().max() <= 1


def test_the_split_is_always_the_same():
    """Figures are reported on it: it may never change."""
    split = digit_split()
    assert (
        hashlib.sha256(repr((split.train, split.valid, split.test)).encode()).hexdigest()[:16]
        == "21865be67eb3f523"
    )
    assert stratified([0, 1] * 50, seed=1) != stratified([0, 1] * 50, seed=2)


def test_the_split_is_shuffled():
    """Neighbours in the file are of one hand: a held-out fifth has its samples all over it."""
    test = torch.tensor(digit_split().test)
    assert (torch.histc(test.float(), bins=6, min=0, max=1796) - 359 / 6).abs().max() < 25
