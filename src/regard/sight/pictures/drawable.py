"""Weights, images and spectrograms as they are given (tensors, arrays, lists, files), checked and made fit to be drawn."""

from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from regard.errors import RegardError

Weights = Tensor | ArrayLike
Photo = str | PathLike[str] | Image.Image | Tensor | NDArray[np.generic]


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


def photo(given: Photo) -> NDArray[np.uint8]:
    """An image as pixels [height, width, 3].

    Given as a path, a pillow image, an array [height, width] or [height, width, 3 or 4], or a tensor [1 or 3,
    height, width]; whole numbers go from 0 to 255, others from 0 to 1.
    """
    if isinstance(given, str | PathLike):
        try:
            with Image.open(Path(given)) as opened:
                return np.asarray(opened.convert("RGB"))
        except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as error:
            raise RegardError(f"{given} cannot be read as an image: {error}") from error
    if isinstance(given, Image.Image):
        return np.asarray(given.convert("RGB"))
    if isinstance(given, Tensor):
        found = given.detach().cpu()
        found = found.float() if found.is_floating_point() else found
        values = found.numpy()
        values = np.moveaxis(values, 0, -1) if values.ndim == 3 else values
    else:
        values = np.asarray(given)
    if values.ndim == 2:
        values = values[..., None]
    if values.ndim != 3 or values.shape[-1] not in (1, 3, 4) or not values.size:
        raise RegardError(
            f"an image of shape {np.shape(given)}: give an array [height, width] or [height, width, 3], or a tensor "
            "[3, height, width]"
        )
    pixels = _bytes(values[..., :3])
    return np.ascontiguousarray(pixels.repeat(3, -1) if pixels.shape[-1] == 1 else pixels)


def spectrogram(values: Tensor | NDArray[np.floating]) -> NDArray[np.uint8]:
    """A spectrogram [bands, frames] as pixels: time to the right, the lowest band at the bottom, loud is dark."""
    held = values.detach().cpu().double().numpy() if isinstance(values, Tensor) else np.asarray(values, float)
    if held.ndim != 2 or not held.size:
        raise RegardError(f"a spectrogram of shape {held.shape}: give [bands, frames]")
    if not np.isfinite(held).all():
        raise RegardError(f"a spectrogram with a {held[~np.isfinite(held)][0]}: give finite numbers")
    low, high = held.min(), held.max()
    level = (high - held[::-1]) / (high - low) if high > low else np.ones_like(held)
    return np.rint(255 * level).astype(np.uint8)[..., None].repeat(3, -1)


def _bytes(values: NDArray[np.generic]) -> NDArray[np.uint8]:
    kind, highest = (values.dtype.kind, 255) if values.dtype.kind in "iu" else (values.dtype.kind, 1)
    if kind not in "iuf":
        raise RegardError(f"an image of {values.dtype}: give numbers")
    numbers = values.astype(np.float64)
    if not np.isfinite(numbers).all() or numbers.min() < 0 or numbers.max() > highest:
        raise RegardError(
            f"an image of {values.dtype} from {numbers.min():g} to {numbers.max():g}: give whole numbers from 0 to "
            "255 or others from 0 to 1; undo a normalisation first"
        )
    return np.rint(numbers * (255 // highest)).astype(np.uint8)
