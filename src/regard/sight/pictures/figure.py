"""Pictures as matplotlib figures. matplotlib is an extra, imported only here."""

from typing import TYPE_CHECKING, Any

import numpy as np

from regard.errors import RegardError
from regard.sight.layer import Layer
from regard.sight.pictures.alignment_map import AlignmentMap
from regard.sight.pictures.atlas import Atlas, overview
from regard.sight.pictures.colours import INK, MARKED, code, shade
from regard.sight.pictures.heatmap import Heatmap
from regard.sight.pictures.scene import amount
from regard.sight.seen import Seen

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MANY = 60  # labels along an edge: beyond, they would overlap


def plot(picture: Heatmap | AlignmentMap | Atlas | Seen | Layer) -> "Figure":
    """A figure of pyplot: a heat map or alignment on one pair of axes, an atlas (or what was seen) on many."""
    pyplot = _pyplot()
    if isinstance(picture, Seen | Layer):
        picture = overview(picture)
    if isinstance(picture, Atlas):
        return _atlas(pyplot, picture)
    heat = picture.picture if isinstance(picture, AlignmentMap) else picture
    if not isinstance(heat, Heatmap):
        raise RegardError(
            f"a {type(heat).__name__} cannot be plotted: give a heat map, an alignment or an atlas"
        )
    rows, columns = heat.weights.shape
    size = (min(12.0, 2.2 + 0.3 * columns), min(12.0, 1.6 + 0.3 * rows))
    figure, axes = pyplot.subplots(figsize=size, layout="constrained")
    levels = np.ma.masked_array(heat.weights, ~heat.allowed)
    shown = axes.imshow(levels, cmap=_ramp(), vmin=0, vmax=heat.top or 1, interpolation="nearest")
    axes.set_facecolor("#e9e7ec")
    axes.xaxis.tick_top()
    for axis, names in ((axes.xaxis, heat.keys), (axes.yaxis, heat.queries)):
        step = -(-len(names) // _MANY)
        axis.set_ticks(range(0, len(names), step), [_literal(name) for name in names[::step]])
    axes.tick_params(length=0)
    axes.tick_params(axis="x", labelrotation=90)
    axes.set_title(_literal(heat.title), color=code(INK))
    figure.colorbar(shown, ax=axes, fraction=0.04)
    if isinstance(picture, AlignmentMap):
        _links(axes, picture)
    return figure


def _links(axes: Any, picture: AlignmentMap) -> None:
    for pairs, style in ((picture.possible, "--"), (picture.sure, "-")):
        for target, source in sorted(pairs):
            corners = [source + x for x in (-0.46, 0.46, 0.46, -0.46, -0.46)]
            axes.plot(
                corners, [target + y for y in (-0.46, -0.46, 0.46, 0.46, -0.46)], style, color=code(MARKED)
            )
    for target, source in sorted(picture.links):
        axes.plot(source, target, "o", markerfacecolor="white", markeredgecolor=code(INK), markersize=5)


def _atlas(pyplot: Any, picture: Atlas) -> "Figure":
    rows, columns = len(picture.maps), len(picture.heads)
    size = (min(16.0, 1.2 + 0.9 * columns), min(16.0, 0.8 + 1.05 * rows))
    figure, grid = pyplot.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    for layer, head in np.ndindex(rows, columns):
        axes = grid[layer, head]
        if head >= len(picture.maps[layer]):
            axes.axis("off")
            continue
        axes.imshow(picture.levels(layer, head), cmap=_ramp(), vmin=0, vmax=1, interpolation="nearest")
        axes.set_xticks([])
        axes.set_yticks([])
        if picture.numbers is not None:
            axes.set_xlabel(amount(picture.numbers[layer][head]), fontsize=7)
        if layer == 0:
            axes.set_title(_literal(picture.heads[head]), fontsize=9)
        if head == 0:
            axes.set_ylabel(_literal(picture.layers[layer]), fontsize=9, rotation=0, ha="right", va="center")
    figure.suptitle(_literal(picture.title), color=code(INK))
    return figure


def _ramp() -> Any:
    from matplotlib.colors import ListedColormap

    return ListedColormap(shade(np.linspace(0, 1, 256)) / 255, name="regard")


def _literal(text: str) -> str:
    """Text that matplotlib does not read as mathematics."""
    return text.replace("$", r"\$")


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise RegardError("plot needs matplotlib, which is an extra: pip install 'regard[plot]'") from error
    return pyplot
