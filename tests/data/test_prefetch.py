import threading
from contextlib import closing
from itertools import islice

import pytest
import torch

from regard import RegardError
from regard.data.batches import Feed, Images, Labelled, each_once
from regard.data.media_feeds import HeldPictures, MediaLabelFeed
from regard.data.prefetch import Prefetch
from regard.training.distribution import batch_order, share_of

PIXELS = torch.arange(50.0)[:, None, None, None] / 50


class Counted:
    """A feed that notes who makes its batches, and of what."""

    def __init__(self, broken: int | None = None, rows: int = 8) -> None:
        self.inner = MediaLabelFeed(HeldPictures(PIXELS), [*range(50)], rows=rows, seed=1)
        self.made: list[tuple[int, ...]] = []
        self.here = 0  # made by the one who asks
        self.broken = broken

    def order(self, epoch: int):
        return self.inner.order(epoch)

    def batch(self, samples) -> Labelled[Images]:
        self.made.append(tuple(samples))
        self.here += threading.current_thread() is threading.main_thread()
        if self.broken in samples:
            raise RegardError(f"sample {self.broken} is broken")
        return self.inner.batch(samples)


def asked(
    feed: Feed, *, count: int, epoch: int = 0, position: int = 0, rank: int = 0, size: int = 1, parts: int = 1
):
    """What the training loop asks for, as it does."""
    for place in islice(batch_order(feed, epoch=epoch, position=position), count):
        for samples in share_of(place.samples, rank=rank, size=size, parts=parts) or [place.samples[:1]]:
            yield samples, feed.batch(samples)


@pytest.mark.parametrize(
    "options", [{}, {"epoch": 2, "position": 5}, {"parts": 2}, {"rank": 1, "size": 3, "parts": 2}]
)
@pytest.mark.parametrize("workers", [1, 3])
def test_contents_and_order_are_those_of_the_feed(options, workers):
    counted = Counted()
    with closing(Prefetch(counted, workers=workers)) as ahead:
        assert isinstance(ahead, Feed)
        ours = [*asked(ahead, count=25, **options)]
    theirs = [*asked(Counted(), count=25, **options)]
    for (samples, batch), (expected, plain) in zip(ours, theirs, strict=True):
        assert samples == expected
        assert torch.equal(batch.inputs.pixels, plain.inputs.pixels)
        assert batch.labels.tolist() == plain.labels.tolist()


@pytest.mark.parametrize("rows", [8, 1])
def test_all_but_the_first_are_made_by_others_and_once(rows):
    counted = Counted(rows=rows)
    with closing(Prefetch(counted, workers=2, depth=3)) as ahead:
        count = len([*asked(ahead, count=20)])
    assert counted.here == 1
    assert len(set(counted.made)) == len(counted.made)
    assert count <= len(counted.made) <= count + 3


def test_the_parts_of_an_update_are_made_ahead_too():
    counted = Counted()
    with closing(Prefetch(counted, workers=2, depth=4)) as ahead:
        [*asked(ahead, count=14, parts=2)]
    # The first of each; and the last batch of an epoch has two rows, of which one each is asked for.
    assert counted.here <= 2 + 2 * 2 + 2


def test_what_was_not_foreseen_is_made_when_it_is_asked_for():
    counted = Counted()
    with closing(Prefetch(counted, workers=2)) as ahead:
        ahead.order(0)
        assert ahead.batch([3, 1, 4]).labels.tolist() == [3, 1, 4]
        order = ahead.order(0)
        for position in (4, 2, 2, 6, 0):
            assert ahead.batch(order[position]).labels.tolist() == [n % 50 for n in order[position]]
        some = [order[1][row] for row in (0, 1, 4)]  # of a batch that is being made ahead
        assert ahead.batch(some).labels.tolist() == [n % 50 for n in some]
        assert ahead.batch(order[1][:3]).labels.tolist() == [n % 50 for n in order[1][:3]]
        assert ahead.batch(ahead.order(7)[1]).labels.tolist() == [n % 50 for n in counted.order(7)[1]]
        assert ahead.batch(ahead.order(0)[1]).labels.tolist() == [n % 50 for n in counted.order(0)[1]]
        assert len(ahead._waiting) == 4
        assert {place.epoch for place in ahead._waiting} == {0}


def test_no_more_wait_than_the_depth_says():
    with closing(Prefetch(Counted(), workers=2, depth=2)) as ahead:
        order = ahead.order(0)
        for samples in order:
            ahead.batch(samples)
            assert len(ahead._waiting) == 2


def test_an_error_comes_when_its_batch_is_asked_for():
    order = Counted().order(0)
    broken = order[3][0]
    with closing(Prefetch(Counted(broken), workers=2)) as ahead:
        ahead.order(0)
        for position in range(3):
            ahead.batch(order[position])
        with pytest.raises(RegardError, match=f"sample {broken} is broken"):
            ahead.batch(order[3])
        assert len(ahead.batch(order[4])) == 8


def test_validation_goes_through_it_as_well():
    counted = Counted()
    with closing(Prefetch(counted, workers=2)) as ahead:
        for _ in range(3):
            labels = torch.cat([batch.labels for batch in each_once(ahead)])
            assert sorted(labels.tolist()) == [*range(50)]
    assert counted.here == 3  # the first batch of each time


def test_closing_leaves_no_threads():
    before = threading.active_count()
    with closing(Prefetch(Counted(), workers=3)) as ahead:
        [*asked(ahead, count=5)]
        assert threading.active_count() > before
    assert threading.active_count() == before


def test_no_workers_are_refused():
    with pytest.raises(RegardError, match="workers=0"):
        Prefetch(Counted(), workers=0)
