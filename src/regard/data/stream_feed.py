"""One long text, cut into windows for a language model."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regard.data.batches import Texts
from regard.data.feeds import Order, check_budget, cut, cut_packed, generator
from regard.errors import RegardError


class StreamFeed:
    """One long text for a language model, cut into windows of `context` + 1 tokens that overlap by one.

    Every token but the first is predicted once an epoch. The cuts move from epoch to epoch, by an offset drawn from
    (seed, epoch), so that every token comes to be predicted from every distance; with `shift=False` they do not.
    Sample k is the window whose last token is token k (where the text goes that far).
    """

    def __init__(
        self,
        stream: NDArray[np.unsignedinteger],
        *,
        context: int,
        budget: int,
        seed: int,
        shift: bool = True,
        packed: bool = False,
    ) -> None:
        if context < 1 or len(stream) < 2:
            raise RegardError(
                f"context={context}, {len(stream)} tokens: give at least 1 and a text of at least 2"
            )
        check_budget(budget)
        self.stream, self.context, self.seed, self.shift, self.packed = stream, context, seed, shift, packed
        self.rows = max(budget // context, 1)
        self.budget = self.rows * context

    def order(self, epoch: int) -> Order:
        """All windows, shuffled, `budget` predicted tokens in a batch."""
        rng = generator(self.seed, epoch)
        first = int(rng.integers(1, self.context + 1)) if self.shift else self.context
        lasts = np.arange(first, len(self.stream) - 1 + self.context, self.context, dtype=np.int64)
        if self.shift:
            rng.shuffle(lasts)
        starts = np.arange(0, len(lasts), self.rows, dtype=np.int64)
        return Order(lasts, starts, np.minimum(starts + self.rows, len(lasts)))

    def batch(self, samples: Sequence[int]) -> Texts:
        """These windows."""
        lasts = np.asarray(samples, np.int64)
        starts = np.maximum(lasts - self.context, 0)
        put = cut_packed if self.packed else cut
        return put(self.stream, starts, np.minimum(lasts, len(self.stream) - 1) - starts + 1)
