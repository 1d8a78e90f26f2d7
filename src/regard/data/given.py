"""What callers give, checked where it enters: a mistake is one line that names it, never a traceback from inside.

Each check is one comparison for correct input, and composes its message only when the input is wrong.

In tensors of pictures (0 to 1) or sound (−1 to 1), integers mean the full range of their type: a byte of a picture is a
part of 255, and a 16-bit sample a part of 32,768, as in the files they come from. Types that do not fix a range (a
picture of int64 may hold 0 to 255, or anything) are refused, and so are floats that exceed the range by more than half
of its width: they are in another scale, and a model would answer nonsense.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import RegardError

Kind = TypeVar("Kind")


def told(value: object) -> str:
    """A value as a message shows it: in one line, and not all of a long one."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, np.ndarray):
        return f"NumPy's {value.dtype}{list(value.shape)}"
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}…"


def vectors(
    name: str, given: Any, width: int | None = None, *, axes: int = 1, of: nn.Module | None = None
) -> Tensor:
    """Vectors of this width, [..., width], with so many axes at least.

    A NumPy array becomes a tensor, like the weights of the module that asks for it.
    """
    if (
        isinstance(given, Tensor)
        and given.is_floating_point()
        and given.ndim >= axes
        and (width is None or given.shape[-1] == width)
    ):
        return given
    if isinstance(given, np.ndarray) and given.dtype.kind == "f":
        like = None if of is None else next(of.parameters(), None)
        taken = torch.from_numpy(np.ascontiguousarray(given))
        return vectors(name, taken if like is None else taken.to(like), width, axes=axes)
    if isinstance(given, Tensor) and given.is_floating_point() and given.ndim >= axes:
        raise RegardError(
            f"{name} has vectors of width {given.shape[-1]}, and {width} is wanted: {told(given)}"
        )
    shape = ", ".join(["…", *["positions"] * (axes - 1), str(width or "width")])
    raise RegardError(f"{name}={told(given)}: give a tensor of floats, [{shape}]")


def integers(name: str, given: Any, axes: int | None = None) -> Tensor:
    """Whole numbers, such as tokens or lengths. Those of few bits, and NumPy's, become int64."""
    if isinstance(given, Tensor) and (axes is None or given.ndim == axes):
        if given.dtype is torch.int64 or given.dtype is torch.int32:
            return given
        if given.dtype in (torch.int16, torch.int8, torch.uint8):
            return given.long()
    if isinstance(given, np.ndarray) and given.dtype.kind in "iu":
        return integers(name, torch.from_numpy(given.astype(np.int64)), axes)
    shape = "" if axes is None else f" with {axes} {'axis' if axes == 1 else 'axes'}"
    raise RegardError(f"{name}={told(given)}: give a tensor of whole numbers{shape}")


def whole(name: str, given: Any, *, least: int | None = None) -> int:
    """One whole number; NumPy's are taken."""
    if not isinstance(given, int) or isinstance(given, bool):
        if not isinstance(given, np.integer):
            raise RegardError(f"{name}={told(given)}: give a whole number")
        given = int(given)
    if least is not None and given < least:
        raise RegardError(f"{name}={given}: at least {least}")
    return given


def number(name: str, given: Any) -> float:
    """One number; NumPy's are taken."""
    if type(given) is float:
        return given
    if isinstance(given, int | float | np.integer | np.floating) and not isinstance(given, bool):
        return float(given)
    raise RegardError(f"{name}={told(given)}: give a number")


def probability(name: str, given: Any) -> float:
    """A number from 0 to 1."""
    if not 0.0 <= number(name, given) <= 1.0:
        raise RegardError(f"{name}={given}: a probability, from 0 to 1")
    return float(given)


def instance(name: str, given: Any, kind: type[Kind] | tuple[type[Kind], ...], wanted: str) -> Kind:
    """Something of a kind; `wanted` says what to give instead."""
    if isinstance(given, kind):
        return given
    raise RegardError(f"{name}={told(given)}: {wanted}")


def listed(given: Any, what: str) -> Any:
    """A list of inputs: a single text would be read as a list of letters."""
    if (
        isinstance(given, Sequence | np.ndarray | Tensor)
        and not isinstance(given, str | bytes)
        and _has_axes(given)
    ):
        return given
    if isinstance(given, str | bytes) or hasattr(given, "__fspath__"):
        raise RegardError(
            f"a list of {what}s is wanted, not one {what}: put it in brackets, [{told(str(given))}]"
        )
    raise RegardError(f"a list of {what}s is wanted, not {told(given)}")


def _has_axes(given: Any) -> bool:
    return getattr(given, "ndim", 1) > 0


def texts_of(given: Any, what: str = "text") -> list[str]:
    """Texts in a list."""
    several = listed(given, what)
    for place, each in enumerate(several):
        if not isinstance(each, str):
            raise RegardError(f"{what} {place} of {len(several)} is {told(each)}: give texts, in quotes")
    return list(several)


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
