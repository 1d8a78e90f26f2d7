"""Slips met in well-known texts: the right form of an equation beside the wrong one, over the same four words."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Annotated

import torch
from torch import Tensor, nn

from regard.attention.masks import causal
from regard.attention.scores import Dot
from regard.attention.weights import weigh
from regard.errors import RegardError
from regard.figures.figure_result import FigureResult
from regard.layers.blocks import Placement, after, before, inside
from regard.sight.pictures.chart import Chart, Series
from regard.sight.pictures.matrix import matrix
from regard.sight.pictures.scene import Drawing, Panels, PictureGrid

WORDS = ["she", "saw", "the", "sea"]
HEADS, WIDTH = 4, 16  # of a head: √16 = 4
SKIPPED = 0.25  # the share of scores or weights that dropout leaves out
DISTANCE, POSITIONS = 10, 200  # two positions so far apart, for so many of the first
WAVES = 64  # features of a position
BLOCKS, FEATURES = 24, 64  # a stack of untrained layers


@dataclass(frozen=True, kw_only=True, eq=False)
class _Slip:
    """Weights of the right form and of the wrong one, and how each is written."""

    name: str
    right: Tensor
    wrong: Tensor
    meant: str
    written: str

    def drawn(self) -> Drawing:
        """Both matrices, of one width in all slips: no title or note is wider than the cells."""
        forms = ((self.right, "right", self.meant), (self.wrong, self.name, self.written))
        return PictureGrid(
            rows=[
                [
                    matrix(weights, rows=WORDS, columns=WORDS, title=title, note=note, top=1.0)
                    for weights, title, note in forms
                ]
            ]
        )

    @property
    def numbers(self) -> dict[str, object]:
        return {"right": _plain(self.right), "wrong": _plain(self.wrong), "relative error": self.error}

    @property
    def error(self) -> float:
        """‖wrong − right‖ / ‖right‖."""
        return round(float((self.wrong - self.right).norm() / self.right.norm()), 6)


def slips(
    *,
    seed: Annotated[int, "Draws the queries and keys of the four words, and the untrained layers."] = 0,
) -> FigureResult:
    """Slips met in well-known texts: nine wrong forms of attention and of what goes around it, beside the right ones."""
    if seed < 0:
        raise RegardError(f"--seed {seed}: at least 0")
    generator = torch.Generator().manual_seed(seed)
    query, key = torch.randn(2, HEADS, 4, WIDTH, generator=generator, dtype=torch.float64)
    found = _slips(query, key)
    along, sizes = _positions(), _sizes(generator)
    multiplied = found[0]
    hidden = float(multiplied.wrong[~causal().dense(4, 4)].sum() / 4)
    waves, ends = along["2j/d"], {name: size[-1] for name, size in sizes.items()}
    pairs = [slip.drawn() for slip in found]
    return FigureResult(
        name="slips",
        picture=Panels(
            parts=[
                PictureGrid(rows=[pairs[row : row + 2] for row in (0, 2, 4)]),
                PictureGrid(rows=[_charts(along, sizes)]),
            ],
            title="Nine slips met in well-known texts",
            note="each beside the right form, over the same queries and keys; B = −2|i − j|; means over every way to drop ¼ of the keys",
        ),
        numbers={
            "seed": seed,
            **{slip.name: slip.numbers for slip in found},
            f"p(t)·p(t + {DISTANCE}) over t": {name: _plain(values) for name, values in along.items()},
            "size of a feature over depth": {name: _plain(values) for name, values in sizes.items()},
        },
        see=(
            f"A mask that is multiplied in makes a hidden score 0, not −∞: hidden words keep {hidden:.0%} of the weight.",
            f"With exponents 2j/d, how alike two positions {DISTANCE} apart are depends on where they stand: "
            f"{float(waves.min()):.1f} to {float(waves.max()):.1f}.",
            f"After {BLOCKS} untrained layers a feature has size {float(ends['norm(x + f(x))']):.1f} with the norm around the sum, "
            f"{float(ends['x + norm(f(x))']):.1f} with the norm inside the branch.",
        ),
    )


def _slips(query: Tensor, key: Tensor) -> list[_Slip]:
    """Those that are seen in the weights. The first head of the words, but for the mean over heads."""
    q, k = query[0], key[0]
    scores = q @ k.mT / math.sqrt(WIDTH)
    right, masked = weigh(q, k), weigh(q, k, causal())
    bias = -2.0 * (torch.arange(4)[:, None] - torch.arange(4)).abs().double()
    biased = weigh(q, k, causal(), bias=bias)
    return [
        _Slip(
            name="mask multiplied in",
            right=masked,
            wrong=torch.softmax(scores * causal().dense(4, 4), -1),
            meant="−∞ where hidden",
            written="softmax(M ⊙ QKᵀ/√d)",
        ),
        _Slip(
            name="added before ÷√d",
            right=biased,
            wrong=weigh(q, k, causal(), score=Dot(), bias=bias / math.sqrt(WIDTH), scale=WIDTH**-0.5),
            meant="softmax(QKᵀ/√d + B)",
            written="softmax((QKᵀ + B)/√d)",
        ),
        _Slip(
            name="indices swapped",
            right=right,
            wrong=weigh(k, q),
            meant="score of i and j: qᵢ·kⱼ",
            written="score of i and j: qⱼ·kᵢ",
        ),
        _Slip(
            name="the wrong axis",
            right=right,
            wrong=torch.softmax(scores, -2),
            meant="softmax over keys",
            written="softmax over queries",
        ),
        _Slip(
            name="dropout first",
            right=right,
            wrong=_expected(scores, lambda kept: torch.softmax(scores * kept / (1 - SKIPPED), -1)),
            meant="dropout(softmax(S)), mean",
            written="softmax(dropout(S)), mean",
        ),
        _Slip(
            name="mean over 4 heads",
            right=right,
            wrong=weigh(query, key).mean(0),
            meant="one head",
            written="as need_weights returns",
        ),
    ]


def _expected(scores: Tensor, thinned: Callable[[Tensor], Tensor]) -> Tensor:
    """The mean over every way to leave out some of four keys, each as often as dropout does; exact, nothing is drawn."""
    total = torch.zeros_like(scores)
    for ways in product((0.0, 1.0), repeat=4):
        kept = torch.tensor(ways, dtype=scores.dtype)
        share = (1 - SKIPPED) ** float(kept.sum()) * SKIPPED ** float(4 - kept.sum())
        total += share * thinned(kept)
    return total


def _positions() -> dict[str, Tensor]:
    """p(t)·p(t + 10) for each t, under the right exponents and under two wrong ones."""
    j = torch.arange(WAVES)
    exponents = {
        "2⌊j/2⌋/d": 2 * (j // 2) / WAVES,
        "2j/d": 2 * j / WAVES,
        "from k = 1": 2 * (j // 2 + 1) / WAVES,
    }
    found = {}
    for name, exponent in exponents.items():
        angle = torch.arange(POSITIONS + DISTANCE)[:, None] * 10000.0 ** -exponent.double()
        waves = torch.where(j % 2 == 0, angle.sin(), angle.cos())
        found[name] = (waves[:POSITIONS] * waves[DISTANCE:]).sum(-1)
    return found


def _sizes(generator: torch.Generator) -> dict[str, Tensor]:
    """The size of a feature after each of many untrained layers, for each place of the norm."""
    places: dict[str, Placement] = {
        "norm(x + f(x))": after,
        "x + f(norm(x))": before,
        "x + norm(f(x))": inside,
    }
    start = torch.randn(256, FEATURES, generator=generator)
    maps = torch.randn(BLOCKS, FEATURES, FEATURES, generator=generator) / math.sqrt(FEATURES)
    norm = nn.LayerNorm(FEATURES, elementwise_affine=False)
    found = {}
    for name, placement in places.items():
        x, sizes = start, [start.std()]
        for weight in maps:
            x = placement(x, partial(_untrained, weight), norm, nn.Identity())
            sizes.append(x.std())
        found[name] = torch.stack(sizes)
    return found


def _untrained(weight: Tensor, x: Tensor) -> Tensor:
    return (x @ weight).relu()


def _charts(along: dict[str, Tensor], sizes: dict[str, Tensor]) -> list[Drawing]:
    positions, stack = (
        [Series(name=name, points=list(enumerate(values.tolist()))) for name, values in found.items()]
        for found in (along, sizes)
    )
    return [
        Chart(title="frequencies of positions", x="position t", series=positions, width=280, height=170,
              note=f"p(t)·p(t + {DISTANCE}); only 2⌊j/2⌋/d from k = 0 is right"),
        Chart(title="the place of the norm", x="untrained layers", series=stack, width=280, height=170,
              note="size of a feature; the Transformer as published is norm(x + f(x))"),
    ]  # fmt: skip


def _plain(values: Tensor) -> object:
    return [_plain(each) for each in values] if values.ndim else round(float(values), 6)
