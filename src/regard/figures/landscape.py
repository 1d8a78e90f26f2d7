"""A drawn landscape, for figures that need a picture and none that has to be downloaded."""

import numpy as np
from PIL import Image, ImageDraw


def landscape(side: int) -> Image.Image:
    """A house and a tree on a hill under the sun, `side` pixels wide and high; drawn large and reduced."""
    big, unit = 3 * side, 3 * side / 100
    fade = np.linspace(0, 1, big)[:, None, None]
    sky = (1 - fade) * np.array([108, 166, 216]) + fade * np.array([158, 202, 234])
    image = Image.fromarray(np.rint(sky).astype(np.uint8).repeat(big, 1))
    draw = ImageDraw.Draw(image)

    def spots(*places: float) -> list[tuple[float, float]]:
        return [(x * unit, y * unit) for x, y in zip(places[::2], places[1::2], strict=True)]

    draw.ellipse(spots(9, 9, 29, 29), fill=(252, 214, 100))
    draw.ellipse(spots(-60, 62, 90, 200), fill=(150, 178, 112))
    draw.ellipse(spots(10, 68, 190, 220), fill=(120, 156, 92))
    draw.rectangle(spots(22, 52, 48, 74), fill=(238, 222, 196))
    draw.polygon(spots(18, 53, 35, 37, 52, 53), fill=(196, 68, 52))
    draw.rectangle(spots(38, 60, 44, 74), fill=(196, 68, 52))
    draw.rectangle(spots(26, 58, 33, 65), fill=(120, 160, 190))
    draw.rectangle(spots(73, 62, 77, 80), fill=(98, 70, 52))
    for x, y, r in ((75, 44, 13), (67, 53, 10), (83, 53, 10), (75, 56, 11)):
        draw.ellipse(spots(x - r, y - r, x + r, y + r), fill=(36, 92, 62))
    return image.reduce(3)
