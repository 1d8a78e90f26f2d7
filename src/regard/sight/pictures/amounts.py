"""Weights as they are handed over, a tensor, an array or lists, made fit to be drawn."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from regard.errors import RegardError

Weights = Tensor | ArrayLike


def amounts(name: str, given: Weights) -> NDArray[np.float64]:
    """The weights in float64; refused unless they are finite numbers of at least 0."""
    if isinstance(given, Tensor):
        given = given.detach().cpu()
        given = (given.double() if given.is_floating_point() else given).numpy()
    try:
        found = np.asarray(given)
    except ValueError as error:  # lists of different lengths
        raise RegardError(f"{name} is ragged: give rows of one length ({error})") from error
    if found.dtype.kind not in "fiub":
        raise RegardError(f"{name} is {found.dtype} {found.shape}: give numbers")
    values: NDArray[np.float64] = found.astype(np.float64)
    wrong = ~np.isfinite(values) | (values < 0)
    if wrong.any():
        raise RegardError(
            f"{name} has a {values[wrong][0]}: weights are finite and at least 0; scores go through weigh first"
        )
    return values


def positive(name: str, value: float | None) -> float | None:
    """A finite number above 0, or None."""
    if value is not None and not (np.isfinite(value) and value > 0):
        raise RegardError(f"{name}={value}: give a positive number")
    return None if value is None else float(value)


def levels(values: NDArray[np.float64], top: float) -> NDArray[np.float64]:
    """Weights as parts of the darkest one."""
    return values / top if top > 0 else np.zeros_like(values)
