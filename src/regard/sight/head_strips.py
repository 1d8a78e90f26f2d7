"""The weights of all heads of a batch entry together, a strip of queries at a time."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.call import Call
from regard.sight.strips import CAPACITY, strips


@dataclass(frozen=True, kw_only=True, eq=False)
class HeadStrip:
    """Some rows of the weights of every head."""

    entry: int  # of the batch axes before the heads, flattened
    rows: slice
    columns: slice
    weights: Float[Tensor, "h r c"]
    looking: Bool[Tensor, "h r"]  # False where a query may look at nothing


def heads_together(call: Call, *, capacity: int = CAPACITY) -> Iterator[HeadStrip]:
    """The weights of each batch entry, all heads side by side, in about `capacity` numbers at a time.

    A call without batch axes has one head.
    """
    count = call.query.shape[-3] if call.query.ndim > 2 else 1
    weights: list[Tensor] = []
    looking: list[Tensor] = []
    for strip in strips(call, capacity=max(1, capacity // max(count, 1))):
        some = strip.parts * strip.share[..., None]
        # Strips hold entries in order, so the heads of one are consecutive, but a strip may hold a part of them.
        for entry, each, total in zip(
            range(strip.entries.start, strip.entries.stop), some, strip.total, strict=True
        ):
            weights.append(each)
            looking.append(total > 0)
            if len(weights) == count:
                yield HeadStrip(
                    entry=entry // count,
                    rows=strip.rows,
                    columns=strip.columns,
                    weights=torch.stack(weights),
                    looking=torch.stack(looking),
                )
                weights, looking = [], []
