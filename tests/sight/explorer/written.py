"""Maps written out in float64, to compare with: no strips, no pooling, no levels."""

import torch
from torch import Tensor

from regard.attention.call import Call


def weights(call: Call) -> Tensor:
    """[..., q, k] in float64, by the equation, for the scaled dot product."""
    query, key = call.query.double(), call.key.double()
    if key.shape[-3] != query.shape[-3]:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
    scores = call.scale * (query @ key.mT) / query.shape[-1] ** 0.5
    if call.mask is not None:
        scores = scores.masked_fill(~hidden_to_allowed(call), -torch.inf)
    return torch.softmax(scores, -1).nan_to_num(0.0)


def hidden_to_allowed(call: Call) -> Tensor:
    """The mask as a matrix with the axes of the call."""
    assert call.mask is not None
    dense = call.mask.dense(call.query.shape[-2], call.key.shape[-2])
    while dense.ndim < call.query.ndim:
        dense = dense.unsqueeze(-3)
    return dense.expand(*call.query.shape[:-1], call.key.shape[-2])


def cells(matrix: Tensor, down: int, across: int) -> tuple[Tensor, Tensor]:
    """Mass and peak of every block of one map: products with who is in which block, and a pooling of torch's."""
    rows, columns = (
        torch.nn.functional.one_hot(torch.arange(size) >> level).double()
        for size, level in zip(matrix.shape, (down, across), strict=True)
    )
    mass = (rows / rows.sum(0)).T @ matrix @ columns
    window = (min(2**down, matrix.shape[0]), min(2**across, matrix.shape[1]))
    peak = torch.nn.functional.max_pool2d(matrix[None], window, ceil_mode=True)[0]
    return mass, peak
