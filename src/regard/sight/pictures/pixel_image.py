"""An image by itself, under its title."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import UInt8
from rich.console import Group, RenderableType
from rich.text import Text

from regard.errors import RegardError
from regard.sight.pictures.drawable import Photo, photo, positive
from regard.sight.pictures.scene import MARGIN, Drawing, Pixels, Scene, head, page, plain

_COLUMNS = 32  # of a terminal, at most


@dataclass(frozen=True, kw_only=True, eq=False)
class PixelImage(Drawing):
    """Pixels stretched over a rectangle; made by `pixel_image`."""

    image: UInt8[np.ndarray, "height width 3"]
    width: float
    title: str
    note: str

    def scene(self) -> Scene:
        """The image below its title."""
        marks, top, reach = head(self.title, self.note)
        high = self.width * self.image.shape[0] / self.image.shape[1]
        marks.append(
            Pixels(x=MARGIN, y=top + 4, width=self.width, height=high, pixels=self.image, said=self.title)
        )
        return page(self.title, marks, max(MARGIN + self.width, reach) + MARGIN, top + 4 + high + MARGIN / 2)

    def terminal(self) -> RenderableType:
        """The image for a rich console, two pixels to a character; where there is no colour, dark is dense."""
        from PIL import Image

        from regard.sight.pictures.terminal import TerminalTile, Tiles

        height, width = self.image.shape[:2]
        size = (_COLUMNS, max(2, round(_COLUMNS * height / width)))
        small = np.asarray(Image.fromarray(self.image).resize(size, Image.Resampling.BOX))
        dark = 1 - small.mean(axis=-1) / 255
        tiles = Tiles(rows=(("", (TerminalTile(levels=dark, pixels=small),)),))
        return Group(Text(" · ".join(filter(None, (self.title, self.note))), style="bold"), tiles)


def pixel_image(image: Photo, *, width: float = 360.0, title: str = "", note: str = "") -> PixelImage:
    """An image, drawn so many units wide."""
    wide = positive("width", width)
    if wide is None:
        raise RegardError("width=None: give a positive number")
    return PixelImage(image=photo(image), width=wide, title=plain(title, 96), note=plain(note, 160))
