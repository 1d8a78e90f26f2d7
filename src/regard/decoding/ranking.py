"""Ranking: the largest of many, the same ones every time."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F


def best(
    values: Float[Tensor, "b n"], count: int
) -> tuple[Float[Tensor, "b {count}"], Int[Tensor, "b {count}"]]:
    """The `count` largest of each row, best first, and where they are; of equals, those that come first.

    `torch.topk` leaves open which of equals it takes. Where a row has fewer, −inf at place 0 fills it up.
    """
    n = values.shape[-1]
    if n < count:
        values = F.pad(values, (0, count - n), value=-torch.inf)
    found, index = values.topk(min(count + 1, values.shape[-1]))
    last = found[:, count - 1 : count]
    if bool((found[:, count:] == last).any()):
        equal, larger = values == last, values > last
        places = count - larger.sum(-1, keepdim=True)
        index = (larger | (equal & (equal.cumsum(-1) <= places))).nonzero()[:, 1].reshape(-1, count)
    else:
        index = index[:, :count].sort(-1).values
    found, order = values.gather(-1, index).sort(dim=-1, descending=True, stable=True)
    index = index.gather(-1, order)
    return found, index.where(index < n, 0)
