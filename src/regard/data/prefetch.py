"""Prefetching: worker threads make the next batches while a model computes; the batches are the same as without.

Threads suffice where batches are made of files: unpacking a picture, scaling it and reading a file all let the other
threads run. What comes next is known, for the order of every epoch is a pure function, and a process that takes
every nth row of a batch goes on taking those. A wrong guess costs time and nothing else: a batch that was not
prefetched is made on request.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Generic, NamedTuple

from regard.data.batches import AnyBatch, Feed
from regard.errors import RegardError


class _Rows(NamedTuple):
    """Some rows of a batch: batch[start::step]."""

    start: int
    step: int


class _Place(NamedTuple):
    """Which rows of which batch."""

    epoch: int
    position: int
    rows: _Rows


class Prefetch(Generic[AnyBatch]):
    """A feed whose next batches are made ahead of use, in order.

    Each worker makes one batch at a time, and at most `depth` batches wait. For use by one thread; `close` it to stop
    what is still being prepared.
    """

    def __init__(self, feed: Feed[AnyBatch], *, workers: int = 2, depth: int | None = None) -> None:
        self._depth = 2 * workers if depth is None else depth
        if workers < 1 or self._depth < 1:
            raise RegardError(f"workers={workers}, depth={depth}: give at least 1 of each")
        self.feed = feed
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="regard-ahead")
        self._orders: dict[int, Sequence[Sequence[int]]] = {}
        self._epoch, self._position = 0, 0  # of the last request
        self._shapes: dict[_Rows, None] = {}  # the rows this process takes, in the order in which it does
        self._waiting: dict[_Place, Future[AnyBatch]] = {}

    def order(self, epoch: int) -> Sequence[Sequence[int]]:
        """The order of the feed."""
        order = self._order(epoch)
        self._epoch, self._position = epoch, 0
        return order

    def batch(self, samples: Sequence[int]) -> AnyBatch:
        """The batch of the feed, waited for if it is still in the making."""
        place = self._located(samples)
        if place is None:
            return self.feed.batch(samples)
        ready = self._waiting.pop(place, None)
        self._position = place.position
        self._shapes[place.rows] = None
        self._prepare()
        return self.feed.batch(samples) if ready is None else ready.result()

    def close(self) -> None:
        """Prepare nothing more."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._waiting.clear()

    def _order(self, epoch: int) -> Sequence[Sequence[int]]:
        if epoch not in self._orders:
            self._orders[epoch] = self.feed.order(epoch)
        return self._orders[epoch]

    def _prepare(self) -> None:
        """Set the workers to what comes next, and forget what does not."""
        here = (self._epoch, self._position)
        coming = dict(islice(self._coming(), self._depth))
        for place in [*self._waiting]:
            if place not in coming and place[:2] != here:
                self._waiting.pop(place).cancel()
        for place, samples in coming.items():
            if place not in self._waiting:
                self._waiting[place] = self._pool.submit(self.feed.batch, samples)
        for old in [epoch for epoch in self._orders if not self._epoch <= epoch <= self._epoch + 1]:
            del self._orders[old]

    def _coming(self) -> Iterator[tuple[_Place, Sequence[int]]]:
        """The batches after the current one, to the end of the next epoch."""
        first = self._position + 1
        for epoch in (self._epoch, self._epoch + 1):
            order = self._order(epoch)
            for position in range(first, len(order)):
                for rows in self._shapes:
                    if len(samples := order[position][rows.start :: rows.step]):
                        yield _Place(epoch, position, rows), samples
            first = 0

    def _located(self, samples: Sequence[int]) -> _Place | None:
        """The place of these samples in the order: most often in the batch asked for last, or the next one."""
        order = self._orders.get(self._epoch, ())
        for position in (*range(self._position, len(order)), *range(min(self._position, len(order)))):
            rows = _rows_of(samples, order[position])
            if rows is not None:
                return _Place(self._epoch, position, rows)
        return None


def _rows_of(samples: Sequence[int], batch: Sequence[int]) -> _Rows | None:
    """Which rows of a batch these samples are; one row of several says nothing about the next batch."""
    if not len(samples) or samples[0] not in batch or (len(samples) == 1) != (len(batch) == 1):
        return None
    start = batch.index(samples[0])
    if len(samples) == 1:
        return _Rows(0, 1)
    if samples[1] not in batch:
        return None
    step = batch.index(samples[1]) - start
    return _Rows(start, step) if step > 0 and [*batch[start::step]] == [*samples] else None
