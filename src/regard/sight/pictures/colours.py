"""The colours of weights, one ramp from paper to ink, and of kinds, such as heads.

The lightness of the ramp falls at one rate from end to end, so the order of two weights is seen without telling hues
apart.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Colour = tuple[int, int, int]

# Equally spaced points on a curve through OKLab (Ottosson 2020): lightness, green–red, blue–yellow.
_POINTS = np.array(
    [
        [0.972, 0.006, 0.012],
        [0.903, 0.022, 0.030],
        [0.836, 0.042, 0.048],
        [0.771, 0.067, 0.060],
        [0.707, 0.092, 0.068],
        [0.644, 0.128, 0.065],
        [0.581, 0.158, 0.046],
        [0.518, 0.173, 0.015],
        [0.456, 0.169, -0.022],
        [0.397, 0.146, -0.056],
        [0.340, 0.109, -0.082],
        [0.282, 0.068, -0.091],
        [0.220, 0.040, -0.069],
    ]
)
_LAB_TO_LMS = np.array(
    [[1, 0.3963377774, 0.2158037573], [1, -0.1055613458, -0.0638541728], [1, -0.0894841775, -1.2914855480]]
)
_LMS_TO_RGB = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ]
)

PAPER: Colour = (255, 255, 255)
INK: Colour = (34, 29, 45)
FAINT: Colour = (116, 110, 126)
HIDDEN: Colour = (233, 231, 236)  # a cell that may not be looked at
HATCH: Colour = (205, 201, 211)  # the lines across it
MARKED: Colour = (0, 128, 148)  # around a cell of a heat map: a hue its ramp does not have
# Kinds, distinct to any eye and about equally strong on paper: after Okabe and Ito (2008), without their yellow.
HUES: tuple[Colour, ...] = (
    (0, 114, 178),  # blue
    (213, 94, 0),  # vermilion
    (0, 158, 115),  # green
    (204, 121, 167),  # pink
    (230, 159, 0),  # orange
    (86, 180, 233),  # sky
    (136, 34, 85),  # wine
    (20, 20, 20),  # black
)


def shade(weights: ArrayLike) -> NDArray[np.uint8]:
    """The colours [..., 3] of weights between 0 (palest) and 1 (darkest); values outside are clipped."""
    weights = np.nan_to_num(np.asarray(weights, dtype=np.float64)).clip(0.0, 1.0)
    stops = np.linspace(0.0, 1.0, len(_POINTS))
    lab = np.stack([np.interp(weights, stops, channel) for channel in _POINTS.T], -1)
    linear = ((lab @ _LAB_TO_LMS.T) ** 3 @ _LMS_TO_RGB.T).clip(0.0, 1.0)
    gamma = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return np.rint(gamma * 255).astype(np.uint8)


def colour(weight: float) -> Colour:
    """The colour of one weight."""
    red, green, blue = shade(weight).tolist()
    return red, green, blue


def readable(back: Colour) -> Colour:
    """The colour of text on a background."""
    return INK if sum(back) > 384 else PAPER


def code(colour: Colour) -> str:
    """A colour as SVG and the terminal write it: #rrggbb."""
    return "#{:02x}{:02x}{:02x}".format(*colour)
