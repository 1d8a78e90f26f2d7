"""An alignment: which source words each target word was made from, over the weights that say so."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.text import Text

from regard.errors import RegardError
from regard.sight.pictures.colours import FAINT, INK, MARKED, PAPER
from regard.sight.pictures.drawable import Weights, amounts
from regard.sight.pictures.heatmap import Heatmap, heatmap
from regard.sight.pictures.png import length
from regard.sight.pictures.scene import NOTE, Box, Circle, Drawing, Label, Mark, Scene, page

Pairs = Iterable[tuple[int, int]]
MAX_WORDS = 256  # words: beyond, no mark is seen in its cell
_LEGEND = 30.0


@dataclass(frozen=True, kw_only=True, eq=False)
class AlignmentMap(Drawing):
    """A heat map of target words (downwards) on source words (across), and links; made by `alignment_map`."""

    picture: Heatmap
    links: frozenset[tuple[int, int]]
    sure: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]]

    def scene(self) -> Scene:
        """The heat map with links and outlines on its cells, and what they mean below."""
        layout = self.picture.layout()
        marks = list(self.picture.scene(layout).marks)
        for kind, pairs in (("possible", self.possible), ("sure", self.sure), ("link", self.links)):
            for query, key in sorted(pairs):
                marks += _mark(kind, *layout.corner(query, key), layout.cell)
        x, y = float(layout.left), layout.height + _LEGEND - 34.0
        said = [("link", "link", self.links)]
        said += [("sure", "sure in the reference", self.sure), ("possible", "possible", self.possible)]
        for kind, text, pairs in said:
            if pairs:
                marks += _mark(kind, x - 3, y - 3, 20) if kind == "link" else _mark(kind, x, y, 14)
                marks.append(Label(x + 21, y + 6.5, text, NOTE, FAINT))
                x += 21 + length(text, NOTE) + 24
        return page(self.picture.title, marks, max(layout.width, x), layout.height + _LEGEND)

    def terminal(self) -> RenderableType:
        """The picture for a rich console: ● a link, □ surely and ◌ possibly one in the reference."""
        from regard.sight.pictures.terminal import TerminalMap

        marks = {
            cell: ("●" if cell in self.links else " ")
            + ("□" if cell in self.sure else "◌" if cell in self.possible else " ")
            for cell in self.links | self.sure | self.possible
        }
        said = [("● link", self.links), ("□ sure", self.sure), ("◌ possible", self.possible)]
        legend = "   ".join(text for text, pairs in said if pairs)
        return Group(TerminalMap(self.picture, marks=marks), Text(legend, style="dim"))


def alignment_map(
    weights: Weights,
    targets: Sequence[str],
    sources: Sequence[str],
    *,
    links: Pairs | None = None,
    sure: Pairs = (),
    possible: Pairs = (),
    title: str = "",
    note: str = "",
    top: float | None = None,
) -> AlignmentMap:
    """A heat map of weights [target, source] with a dot on each link and an outline around each reference pair.

    `links`, `sure` and `possible` are pairs (target, source), counted from 0; without `links`, each target word is
    linked to its heaviest source word. Sure pairs have a solid outline, possible ones a dashed one.
    """
    values = amounts("weights", weights)
    if max(len(targets), len(sources)) > MAX_WORDS:
        raise RegardError(
            f"{len(targets)} target and {len(sources)} source words: an alignment shows at most {MAX_WORDS} of each"
        )
    picture = heatmap(values, targets, sources, title=title, note=note, top=top)
    if links is None:
        best = values.argmax(-1).tolist()
        links = [(target, source) for target, source in enumerate(best) if values[target, source] > 0]
    surely = _pairs("sure", sure, values.shape)
    return AlignmentMap(
        picture=picture,
        links=_pairs("links", links, values.shape),
        sure=surely,
        possible=_pairs("possible", possible, values.shape) - surely,
    )


def _pairs(name: str, pairs: Pairs, shape: tuple[int, ...]) -> frozenset[tuple[int, int]]:
    found = {(int(target), int(source)) for target, source in pairs}
    for pair in sorted(found):
        if not all(0 <= place < size for place, size in zip(pair, shape, strict=True)):
            raise RegardError(
                f"{name} has {pair}, but there are {shape[0]} target and {shape[1]} source words: give pairs "
                "(target, source), counted from 0"
            )
    return frozenset(found)


def _mark(kind: str, x: float, y: float, cell: int) -> list[Mark]:
    """A dot in a cell or an outline around it. A line of paper between the two colours is seen on any of them."""
    side = cell - 1.0 if cell >= 6 else float(cell)
    if kind == "link":
        thick, radius = max(0.5, min(1.4, cell / 20)), max(0.5, 0.13 * cell)
        return [Circle(x=x + side / 2, y=y + side / 2, radius=radius, fill=PAPER, edge=INK, thick=thick)]
    thick = max(0.8, min(2.6, cell / 12))
    x, y, side = x + thick / 2, y + thick / 2, side - thick  # inside its cell, clear of its neighbours'
    outline = Box(x=x, y=y, width=side, height=side, edge=MARKED, thick=thick, dashed=kind == "possible")
    if cell < 10:
        return [outline]
    return [Box(x=x, y=y, width=side, height=side, edge=PAPER, thick=thick + 2), outline]
