"""Who takes which samples."""

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st
from training.toys import Words

from regard.errors import RegardError
from regard.training.batch_order import batch_order, share_of


@given(st.integers(0, 40), st.integers(1, 5), st.integers(1, 4))
def test_every_sample_goes_to_one_part_of_one_process(count: int, size: int, parts: int) -> None:
    samples = list(range(100, 100 + count))
    shares = [share_of(samples, rank=rank, size=size, parts=parts) for rank in range(size)]
    assert sorted(sample for share in shares for part in share for sample in part) == samples
    sizes = [len(part) for share in shares for part in share]
    assert all(sizes)
    assert not sizes or max(sizes) - min(sizes) <= 1


def test_rows_are_dealt_like_cards() -> None:
    assert share_of([7, 8, 9, 10, 11], rank=1, size=2, parts=2) == [[9], [10]]


def test_turns_go_on_from_any_place() -> None:
    feed = Words(12, size=5)
    whole = list(islice(batch_order(feed, epoch=0, position=0), 10))
    assert [(place.epoch, place.position) for place in whole[:4]] == [(0, 0), (0, 1), (0, 2), (1, 0)]
    assert whole[4].samples == feed.order(1)[1]
    for done in range(8):
        before = whole[done]
        later = batch_order(feed, epoch=before.epoch, position=before.position + 1)
        assert next(later) == whole[done + 1]


def test_an_epoch_of_nothing_is_an_error() -> None:
    with pytest.raises(RegardError, match="epoch 0 has no batches"):
        next(batch_order(Words(0), epoch=0, position=0))
