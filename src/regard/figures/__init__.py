"""Figures of the texts that teach attention, each computed or trained here.

From Python `regard.figures.four_words()`, from the command line `regard figure four-words`. One file a figure,
`<name>_figure.py`, with one function of the figure's name; imported when first used.
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.figures.alignment_figure import alignment as alignment
    from regard.figures.bottleneck_figure import bottleneck as bottleneck
    from regard.figures.columns_figure import columns as columns
    from regard.figures.cost_figure import cost as cost
    from regard.figures.counter_figure import counter as counter
    from regard.figures.dynamic_figure import dynamic as dynamic
    from regard.figures.four_words_figure import four_words as four_words
    from regard.figures.heads_figure import heads as heads
    from regard.figures.masks_figure import masks as masks
    from regard.figures.patches_figure import patches as patches
    from regard.figures.positions_figure import positions as positions
    from regard.figures.scale_figure import scale as scale
    from regard.figures.shuffle_figure import shuffle as shuffle
    from regard.figures.slips_figure import slips as slips

# By name, what a figure shows, in one sentence.
FIGURES = {
    "alignment": "where six scores of the recurrent translator look for each word of a number, and how often rightly",
    "bottleneck": "exact translations of numbers over their length, without attention, with it, and by a Transformer",
    "counter": "more 4s than 2s among ten digits? One query learns where to look, from yes and no alone",
    "four-words": "softmax(QKᵀ/√d) V over four words, with every intermediate value",
    "heads": "heads with widths of their own: concatenated and projected, equal to a sum of one term a head",
    "columns": "attention with a word a column and columns normalised, equal to rows",
    "dynamic": "fixed weights of a convolution and a dense layer beside attention's, as the subject of a sentence moves",
    "masks": "padding, causal, window and cross masks over a sentence, and what a mask multiplied in does instead",
    "scale": "why scores are divided by √d: their variance, and the entropy and gradient of softmax",
    "shuffle": "what the order of queries, keys and values changes, and what it does not",
    "cost": "operations, time, memory and parameters of attention, recurrence, convolution and a dense map over positions",
    "patches": "a picture cut into patches, and where the class token of a Vision Transformer looks on digits",
    "positions": "dot products of naive, sinusoidal, Gaussian, rotary and learned positions; appended against added",
    "slips": "wrong forms of attention met in well-known texts, beside the right ones",
}


def figure_function(name: str) -> Callable[..., Any]:
    """The function that makes a figure; its keyword arguments are the figure's settings."""
    if name not in FIGURES:
        raise RegardError(f"{name!r} is no figure: one of {', '.join(FIGURES)}")
    stem = name.replace("-", "_")
    found: Callable[..., Any] = getattr(import_module(f"regard.figures.{stem}_figure"), stem)
    return found


def __getattr__(name: str) -> object:
    if name.replace("_", "-") not in FIGURES:
        raise AttributeError(f"module 'regard.figures' has no attribute {name!r}")
    return figure_function(name.replace("_", "-"))


def __dir__() -> list[str]:
    return [*globals(), *(name.replace("-", "_") for name in FIGURES)]
