"""Which samples an update learns from, and which of them a process takes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from regard.data.batches import Feed
from regard.errors import RegardError


@dataclass(frozen=True)
class BatchPlace:
    """The samples of one update, and where in the data they are."""

    epoch: int
    position: int  # which batch of the epoch
    samples: Sequence[int]


def batch_order(feed: Feed[Any], *, epoch: int, position: int) -> Iterator[BatchPlace]:
    """The batches from a place in the data on, epoch after epoch, without end."""
    while True:
        order = feed.order(epoch)
        if not len(order):
            raise RegardError(f"epoch {epoch} has no batches: there is nothing to learn from")
        for here in range(position, len(order)):
            yield BatchPlace(epoch, here, order[here])
        epoch, position = epoch + 1, 0


def share_of(samples: Sequence[int], *, rank: int, size: int, parts: int) -> list[Sequence[int]]:
    """What one of `size` processes takes of an update, in parts: every sample goes to exactly one part of one.

    Rows are dealt out like cards, so that each gets long and short ones. Parts without rows are left out.
    """
    hands = size * parts
    dealt = (samples[hand::hands] for hand in range(rank * parts, (rank + 1) * parts))
    return [hand for hand in dealt if len(hand)]
