"""Batch axes of masks: they come first, and are lined up at the left."""

from collections.abc import Sequence
from typing import NoReturn

from torch import Tensor

from regard.errors import RegardError


def pad_axes(tensor: Tensor, batch_axes: int, tail: int) -> Tensor:
    """Give `tensor` the wanted number of batch axes, new ones (of size 1) after its own: batch comes first."""
    own = tensor.ndim - tail
    for _ in range(batch_axes - own):
        tensor = tensor.unsqueeze(own)
    return tensor


def align(a: Tensor, b: Tensor, tail: int) -> tuple[Tensor, Tensor]:
    """Line up the batch axes of two tensors at the left: [b, q, k] against [b, h, q, k] is [b, 1, q, k]."""
    axes = max(a.ndim, b.ndim) - tail
    return pad_axes(a, axes, tail), pad_axes(b, axes, tail)


def both(a: Tensor | None, b: Tensor | None, tail: int) -> Tensor | None:
    """`a & b`, where None means everything."""
    if a is None or b is None:
        return a if b is None else b
    a, b = align(a, b, tail)
    try:
        return a & b
    except RuntimeError as error:
        raise RegardError(
            f"masks of shapes {tuple(a.shape)} and {tuple(b.shape)} do not go together: "
            "their batch axes, counted from the left, must be equal or 1"
        ) from error


def refuse_axes(shape: Sequence[int], axes: int, batch_axes: int) -> NoReturn:
    """Raise, since a mask has more batch axes than the call."""
    raise RegardError(
        f"a mask with {axes} batch axes (shape {tuple(shape)}) was given to a call "
        f"with {batch_axes}: drop axes from the mask or add them to query and key"
    )
