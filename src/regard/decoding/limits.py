"""Limits: how long a text may become. Each row has its own, so that the company in a batch changes nothing."""

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from regard.data.given import integers, whole
from regard.errors import RegardError

Limits = int | Int[Tensor, " b"]


def per_row(limits: Limits, rows: int, *, device: torch.device) -> Int[Tensor, " {rows}"]:
    """The most tokens of every row, END among them."""
    if type(limits) is int and limits >= 1:
        return torch.full((rows,), limits, device=device)
    if isinstance(limits, Tensor) and (limits.is_floating_point() or limits.dtype == torch.bool):
        raise RegardError(f"limits of type {limits.dtype}: give whole numbers of tokens")
    most = (
        integers("limits", limits)
        if isinstance(limits, Tensor | np.ndarray)
        else torch.tensor(whole("limits", limits))
    )
    most = most.to(device)
    if most.ndim > 1 or (most.ndim == 1 and len(most) != rows):
        raise RegardError(
            f"limits of shape {list(most.shape)} for {rows} rows: give one number, or one a row"
        )
    if bool((most < 1).any()):
        raise RegardError(f"a limit of {int(most.min())} tokens: leave room for at least 1")
    return most.long().expand(rows)
