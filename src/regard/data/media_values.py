"""Pictures and sound that callers give as tensors or arrays, as numbers from 0 to 1 and from −1 to 1.

Integers mean the full range of their type: a byte of a picture is a part of 255, and a 16-bit sample a part of 32,768,
as in the files they come from. Types that do not fix a range (a picture of int64 may hold 0 to 255, or anything) are
refused, and so are floats that exceed the range by more than half of its width: they are in another scale, and a model
would answer nonsense.
"""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import RegardError

# type: (the number that is 0, how much is 1)
_PIXELS = {torch.bool: (0, 1), torch.uint8: (0, 255), torch.uint16: (0, 65_535)}
_SAMPLES = {
    torch.uint8: (128, 128),  # the only type of sound without a sign, as in WAV
    torch.int8: (0, 128),
    torch.int16: (0, 2**15),
    torch.int32: (0, 2**31),
}


def as_pixels(given: object) -> Float[Tensor, "*any"]:
    """A tensor or an array of a picture, as numbers from 0 to 1."""
    return _scaled(given, _PIXELS, (0.0, 1.0), "a picture")


def as_samples(given: object) -> Float[Tensor, "*any"]:
    """A tensor or an array of sound, as numbers from −1 to 1."""
    return _scaled(given, _SAMPLES, (-1.0, 1.0), "a recording")


def _scaled(
    given: object, types: dict[torch.dtype, tuple[int, int]], ends: tuple[float, float], what: str
) -> Tensor:
    values = _tensor(given, what)
    kinds = ", ".join(str(each).removeprefix("torch.") for each in types)
    wanted = f"give {kinds}, whose full range is meant, or floats from {ends[0]:g} to {ends[1]:g}"
    if values.dtype in types:
        zero, one = types[values.dtype]
        wide = values.double() if values.dtype == torch.int32 else values.float()
        return ((wide - zero) / one).float()
    if not values.is_floating_point():
        raise RegardError(f"{what} of {str(values.dtype).removeprefix('torch.')}: {wanted}")
    values = values.float()
    room = (ends[1] - ends[0]) / 2
    if values.numel():
        low, high = float(values.min()), float(values.max())
        if not (ends[0] - room <= low and high <= ends[1] + room):  # also where they are NaN
            raise RegardError(f"{what} of floats from {low:g} to {high:g}: {wanted}")
    return values


def _tensor(given: object, what: str) -> Tensor:
    if isinstance(given, Tensor):
        return given
    if isinstance(given, np.ndarray):
        try:
            # A copy: torch takes neither negative strides nor other byte orders, and warns of what is read-only.
            return torch.from_numpy(given.astype(given.dtype.newbyteorder("="), order="C"))
        except TypeError:
            raise RegardError(f"{what} of {given.dtype}: give numbers") from None
    raise RegardError(f"{what} as a {type(given).__name__}: give a file, a tensor or a NumPy array")
