"""The colours of kinds, such as heads: told apart with any eye, and about equally strong on paper."""

from regard.sight.pictures.colours import Colour

# After Okabe and Ito (2008), without their yellow, which paper swallows.
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
MARKED: Colour = (0, 128, 148)  # around a cell of a heat map: a hue its ramp does not have
