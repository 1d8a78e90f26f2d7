"""Resampling: the same sound at another rate.

A sound without frequencies above half its rate is known between its samples too: it is the sum of its samples, each
times a sinc (Shannon 1949). The sinc is cut off by a Kaiser window, and widened where the new rate is the lower one,
so that what the new rate cannot carry is taken out and does not come back as another tone.
"""

import math

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from regard.errors import RegardError

_CROSSINGS = 32  # zeros of the sinc on either side
_BETA = 12.0  # of the window: what should be gone is about 118 dB down
_PASSED = 0.92  # of the frequencies both rates can carry; the filter falls from here on
_AT_ONCE = 1 << 22  # numbers of the windows computed together, to bound memory
_TABLE = 1 << 22  # numbers of the kernels that are worked out beforehand
_FARTHEST = 256  # times the one rate of the other: kilobytes at 1 a second would become hours at 8,000
_HIGHEST = 1_000_000


def resample(samples: Float[Tensor, " n"], rate: int, *, to: int) -> Float[Tensor, " m"]:
    """A sound at another rate: sample j is the sound at the time j / to, and m = ⌈n · to / rate⌉."""
    if not (0 < rate <= _HIGHEST and 0 < to <= _HIGHEST):
        raise RegardError(f"rate={rate}, to={to}: give rates from 1 to {_HIGHEST} a second")
    if max(rate, to) > _FARTHEST * min(rate, to):
        raise RegardError(
            f"{rate} samples a second, to be brought to {to}: at most {_FARTHEST} times as many or few"
        )
    if rate == to or not len(samples):
        return samples
    shared = math.gcd(rate, to)
    up, down = to // shared, rate // shared
    cutoff = _PASSED * min(1.0, to / rate)
    reach = math.ceil(_CROSSINGS / cutoff)
    padded = np.pad(samples.detach().double().numpy(), (reach, reach + 1))
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1)
    count = -(-len(samples) * to // rate)
    # Sample j lies at j·down/up of the old ones: a whole number of them and one of `up` fractions.
    width, different = 2 * reach + 1, min(up, count)
    table = (
        _kernels(np.arange(different) * down % up / up, reach, cutoff)
        if different * width <= _TABLE
        else None
    )
    parts, rows = [], max(1, _AT_ONCE // width)
    for first in range(0, count, rows):
        j = np.arange(first, min(first + rows, count))
        kernels = _kernels(j * down % up / up, reach, cutoff) if table is None else table[j % up]
        parts.append(np.einsum("jk,jk->j", windows[j * down // up], kernels))
    return torch.from_numpy(np.concatenate(parts)).to(samples.dtype)


def _kernels(fractions: NDArray[np.float64], reach: int, cutoff: float) -> NDArray[np.float64]:
    """For every fraction the weights of the old samples from −reach to reach; they sum to 1, as silence is to stay."""
    distance = np.arange(-reach, reach + 1) - fractions[:, None]
    inside = np.clip(1 - (distance * cutoff / _CROSSINGS) ** 2, 0, None)
    kernels = np.sinc(cutoff * distance) * np.i0(_BETA * np.sqrt(inside)) * (inside > 0)
    return kernels / kernels.sum(1, keepdims=True)
