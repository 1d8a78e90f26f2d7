"""Light augmentation: each sample a little different every time it comes, as a pure function of (seed, sample).

A feed gives a sample another number in every epoch, so that the epoch is in it; a resumed run sees the same bits.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from regard.data.draws import stream, uniform
from regard.errors import RegardError


@dataclass(frozen=True, kw_only=True)
class Jitter:
    """How far a picture may be moved; what comes into view from outside is 0."""

    shift: float = 0.0  # pixels, to every side; whole ones where nothing is turned or scaled
    turn: float = 0.0  # degrees, either way
    scale: float = 0.0  # larger or smaller by this part of its size
    flip: bool = False  # every other one left for right: not for digits

    def __post_init__(self) -> None:
        if not (self.shift >= 0 and 0 <= self.turn <= 180 and 0 <= self.scale < 1):
            raise RegardError(
                f"shift={self.shift}, turn={self.turn}, scale={self.scale}: "
                "give pixels from 0, degrees from 0 to 180, and a part below 1"
            )


@dataclass(frozen=True, kw_only=True)
class SoundJitter:
    """How far a recording may be changed. Its length changes with its speed alone."""

    shift: int = 0  # samples, earlier or later; what is moved out is lost, silence comes in
    gain: float = 0.0  # decibels, louder or softer
    speed: float = 0.0  # faster and higher, or slower and lower, by this part
    noise: float = 0.0  # the largest deviation of white noise laid over it
    snr: tuple[float, float] | None = None  # or decibels by which it is louder than that noise, from and to
    tilt: float = 0.0  # brighter or duller: x[t] − a · x[t − 1], with a up to this either way

    def __post_init__(self) -> None:
        if not (
            self.shift >= 0
            and self.gain >= 0
            and 0 <= self.speed < 1
            and self.noise >= 0
            and 0 <= self.tilt <= 1
        ):
            raise RegardError(
                f"shift={self.shift}, gain={self.gain}, speed={self.speed}, noise={self.noise}, tilt={self.tilt}: "
                "give numbers from 0, a speed below 1, and a tilt of at most 1"
            )
        if self.snr is not None and (self.noise or not self.snr[0] <= self.snr[1]):
            raise RegardError(
                f"snr={self.snr}, noise={self.noise}: give one of them, the snr from the smaller to the larger"
            )


def jitter_images(
    pixels: Float[Tensor, "b channels height width"], samples: Sequence[int], *, jitter: Jitter, seed: int
) -> Float[Tensor, "b channels height width"]:
    """Pictures turned, scaled, shifted and flipped about their middle, in between pixels linearly.

    Those that are only shifted are shifted by whole pixels.
    """
    if len(samples) != len(pixels):
        raise RegardError(
            f"{len(pixels)} pictures and {len(samples)} numbers of samples: give one number each"
        )
    if jitter == Jitter() or not len(pixels):
        return pixels
    height, width = pixels.shape[-2:]
    drawn = uniform(samples, 5, seed=seed, purpose="jitter")
    across, down, turned, scaled = (2 * drawn[:, :4] - 1).T
    angle = np.deg2rad(jitter.turn) * turned
    size = 1 + jitter.scale * scaled
    mirror = np.where(jitter.flip & (drawn[:, 4] < 0.5), -1.0, 1.0)
    cos, sin = np.cos(angle) / size, np.sin(angle) / size
    # grid_sample asks where a pixel comes from, in a picture that reaches from −1 to 1 whatever its proportions.
    across, down = jitter.shift * across, jitter.shift * down
    if not (jitter.turn or jitter.scale):
        across, down = np.rint(across), np.rint(down)  # whole pixels, which stay sharp
    right, below = 2 * across / width, 2 * down / height
    rows = [
        [mirror * cos, mirror * sin * height / width, mirror * right],
        [-sin * width / height, cos, below],
    ]
    places = torch.from_numpy(np.stack([np.stack(row, -1) for row in rows], 1)).to(pixels)
    grid = F.affine_grid(places, list(pixels.shape), align_corners=False)
    return F.grid_sample(pixels, grid, align_corners=False)


def jitter_sound(
    samples: Float[Tensor, " n"], number: int, *, jitter: SoundJitter, seed: int
) -> Float[Tensor, " m"]:
    """A recording at another speed, moved, louder or softer, with noise, brighter or duller; never beyond ±1."""
    if jitter == SoundJitter():
        return samples
    moved, louder, faster, loud, brighter = 2 * uniform([number], 5, seed=seed, purpose="sound jitter")[0] - 1
    values = samples.double().numpy()
    if jitter.speed:
        step = 1 + jitter.speed * faster
        at = np.arange(max(round(len(values) / step), 1)) * step
        values = np.interp(at, np.arange(len(values)), values)
    values = _moved(values, round(jitter.shift * moved)) * 10 ** (jitter.gain * louder / 20)
    if jitter.noise or jitter.snr:
        white = stream(number, seed=seed, purpose="noise").random(len(values))
        deviation = _deviation(values, jitter, abs(loud))
        values = values + deviation * 12**0.5 * (white - 0.5)  # that of a uniform number is √(1/12)
    if jitter.tilt:
        values = values - jitter.tilt * brighter * _moved(values, 1)
    return torch.from_numpy(np.clip(values, -1, 1)).to(samples.dtype)


def _deviation(values: NDArray[np.float64], jitter: SoundJitter, drawn: float) -> float:
    """Of the noise. Whichever way, some recordings nearly stay as they are, as they will be later."""
    if jitter.snr is None:
        return jitter.noise * drawn
    low, high = jitter.snr
    return float(np.sqrt(np.mean(values**2))) * 10 ** (-(low + (high - low) * drawn) / 20)


def _moved(values: NDArray[np.float64], places: int) -> NDArray[np.float64]:
    moved = np.zeros_like(values)
    if places >= 0:
        moved[places:] = values[: max(len(values) - places, 0)]
    else:
        moved[:places] = values[-places:]
    return moved
