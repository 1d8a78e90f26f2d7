"""A sheet: several heat maps on one page, to be compared."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike

from PIL import Image

from regard.errors import RegardError
from regard.sight.pictures.colours import PAPER
from regard.sight.pictures.heatmap import Heatmap
from regard.sight.pictures.layout import place
from regard.sight.pictures.raster import SCALE, draw, save

_CELL, _MAP = 18, 240  # the largest cell, and the largest map


@dataclass(frozen=True, eq=False)
class Sheet:
    """Rows of heat maps; made by `sheet`."""

    rows: tuple[tuple[Heatmap, ...], ...]

    def draw(self) -> Image.Image:
        """The page as an image: cells of one size, maps of a column under one another."""
        most = max(max(picture.weights.shape) for row in self.rows for picture in row)
        cell = max(1, min(_CELL, _MAP // most))
        layouts = [[place(picture, cell=cell, angle=90.0) for picture in row] for row in self.rows]
        columns = range(max(map(len, layouts)))
        widths = [max(row[column].width for row in layouts if column < len(row)) for column in columns]
        heights = [max(layout.height for layout in row) for row in layouts]
        page = Image.new("RGB", (round(sum(widths) * SCALE), round(sum(heights) * SCALE)), PAPER)
        for i, row in enumerate(self.rows):
            for j, picture in enumerate(row):
                corner = (round(sum(widths[:j]) * SCALE), round(sum(heights[:i]) * SCALE))
                page.paste(draw(picture, layouts[i][j]), corner)
        return page

    def png(self, path: str | PathLike[str]) -> None:
        """Write the page as PNG, at twice the size it is meant to be seen at."""
        save(self.draw(), path)


def sheet(pictures: Sequence[Sequence[Heatmap]]) -> Sheet:
    """Rows of heat maps as one page, each with its own title and scale; a row may be shorter than the others."""
    rows = tuple(tuple(row) for row in pictures)
    if not rows or not all(rows):
        raise RegardError(
            f"a sheet with {[len(row) for row in rows]} pictures a row: give each row at least one"
        )
    return Sheet(rows)
