"""Positions as vectors: which dot products φ(i)·φ(j) say how near two positions are, and which do not."""

import math
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import RenderableType
from torch import Tensor

from regard.errors import RegardError
from regard.figures.figure_result import FigureResult
from regard.figures.position_vectors import fourier_series, largest_error, naive_ways, trained_table
from regard.layers.embedding import Gaussian, Learned, Sinusoidal
from regard.layers.rotary import Rotary
from regard.sight.pictures.chart import Chart, Series
from regard.sight.pictures.heatmap import Sheet, heatmap
from regard.sight.pictures.matrix import Matrix, matrix
from regard.sight.pictures.scene import Panels, PictureGrid
from regard.sight.pictures.terminal import TerminalTile, Tiles

NEAR, FAR = 1, 4  # distances that are compared
FEWEST, MOST, WIDEST = 2 * FAR, 64, 1024
TERMS = 24  # of the Fourier series, at most
_CHECKS = ("self largest", "near > far", "same at any i", "same at any n")
Products = dict[str, NDArray[np.float64]]


def positions(
    *,
    seed: Annotated[int, "Draws the words, the vector that is turned, and the table that is trained."] = 0,
    count: Annotated[int, "How many positions there are, n."] = 16,
    width: Annotated[int, "Features of a word and of a position, d."] = 32,
    decay: Annotated[float, "λ of the Gaussian exp(−λ (i − j)²)."] = 0.05,
) -> FigureResult:
    """φ(i)·φ(j) of naive, sinusoidal, Gaussian, rotary and learned positions; appended against added ones."""
    _check(seed, count, width, decay)
    generator = torch.Generator().manual_seed(seed)
    words = torch.randn(2 * count, width, generator=generator, dtype=torch.float64)
    turned = torch.randn(width, generator=generator)
    table = Learned(width, count=2 * count)
    with torch.no_grad():
        table.table.copy_(torch.randn(2 * count, width, generator=generator) * 0.02)
    trained = trained_table(table.table.detach(), generator)

    def products(n: int) -> Products:
        at = torch.arange(n)
        gaussian = Gaussian(width, decay=decay, horizon=count - 1)
        schemes = {
            "sinusoidal": Sinusoidal(width)(at),
            "Gaussian": gaussian(at),
            "rotary": Rotary(width)(turned.expand(n, -1)),
            "untrained table": table(at).detach(),
            "trained table": trained[:n],
        }
        return {name: _products(each) for name, each in {**naive_ways(n, words[:n]), **schemes}.items()}

    found = products(count)
    checks = _checks(found, products(2 * count))
    terms = _terms(words[:count], Sinusoidal(width)(torch.arange(count)).double())
    curves = {
        name: _by_distance(found[name]) for name in ("sinusoidal", "Gaussian", "rotary", "trained table")
    }
    errors = _errors(count, decay)
    first = next((m for m, error in errors["from k = 0"] if error < 1e-3), None)
    last = found["[i]"][count // 2]
    share = float(np.exp(last[-1] - last.max()) / np.exp(last - last.max()).sum())
    drowned = terms["i added"]
    return FigureResult(
        name="positions",
        picture=_picture(found, checks, terms, curves, errors, decay),
        numbers={
            "seed": seed, "count": count, "width": width, "decay": decay,
            "products": {name: each.round(7).tolist() for name, each in found.items()},
            "checks": {name: dict(zip(_CHECKS, row, strict=True)) for name, row in checks.items()},
            "weight of the last position under softmax of [i]·[j], from the middle": round(share, 6),
            "standard deviation of the parts of a score": terms,
            "by distance, over φ(i)·φ(i)": curves,
            "largest error of the Gaussian by terms": {name: {str(m): error for m, error in each} for name, each in errors.items()},
        },
        see=(
            f"[i]: position {count // 2} gives {share:.2%} of its weight to the last; i / n: a pair scores a quarter at twice the "
            f"length; x + i: words vary a score by {drowned['x_i·x_j']:.1f}, positions by {drowned['p_i·p_j']:,.0f}.",
            "Sinusoidal, Gaussian and rotary products depend on i − j alone; a learned table knows nothing of nearness until it "
            "is trained.",
            f"The Fourier series of the Gaussian is off by less than 0.001 {_from(first)}, and by {errors['from k = 1'][-1][1]:.2g} for "
            "ever if it begins at k = 1; appended, no word meets a position.",
        ),
    )  # fmt: skip


def _check(seed: int, count: int, width: int, decay: float) -> None:
    if seed < 0:
        raise RegardError(f"--seed {seed}: at least 0")
    if not FEWEST <= count <= MOST:
        raise RegardError(f"--count {count}: from {FEWEST} to {MOST} positions")
    if width % 2 or not 2 <= width <= WIDEST:
        raise RegardError(f"--width {width}: an even number from 2 to {WIDEST}")
    if not 1e-3 <= decay <= 1:
        raise RegardError(f"--decay {decay}: a number from 0.001 to 1")


def _from(first: int | None) -> str:
    return f"with {first} terms or more" if first else f"only with more than {TERMS} terms"


def _products(vectors: Tensor) -> NDArray[np.float64]:
    found: NDArray[np.float64] = (vectors.double() @ vectors.double().T).numpy()
    return found


def _checks(found: Products, longer: Products) -> dict[str, list[float]]:
    """Four numbers for each way, named in _CHECKS, all 1 for a φ that says how near two positions are.

    The share of positions most similar to themselves; the share that are more similar at distance NEAR than at FAR; the
    least of φ(i)·φ(i + NEAR) over the largest; φ(NEAR)·φ(FAR) at twice the length over that here.
    """
    checks = {}
    for name, products in found.items():
        count = len(products)
        others = products - np.diag(np.full(count, np.inf))
        own = float((np.diag(products) > others.max(axis=1)).mean())
        i = np.arange(count)
        pairs = [(a, sign) for a in i for sign in (-1, 1) if 0 <= a + sign * FAR < count]
        nearer = float(np.mean([products[a, a + s * NEAR] > products[a, a + s * FAR] for a, s in pairs]))
        beside = np.diag(products, NEAR)
        same = max(0.0, beside.min() / beside.max())
        ratio = longer[name][NEAR, FAR] / products[NEAR, FAR]
        checks[name] = [round(float(each), 4) for each in (own, nearer, same, ratio)]
    return checks


def _terms(words: Tensor, waves: Tensor) -> dict[str, dict[str, float]]:
    """(x_i + p_i)·(x_j + p_j) = x_i·x_j + x_i·p_j + p_i·x_j + p_i·p_j: how much each part varies over i and j.

    Appended, a word is [x, 0] and a position [0, p].
    """
    counted = torch.arange(len(words), dtype=words.dtype)[:, None].expand_as(words)

    def varied(x: Tensor, p: Tensor) -> dict[str, float]:
        parts = {"x_i·x_j": x @ x.T, "x_i·p_j": x @ p.T, "p_i·x_j": p @ x.T, "p_i·p_j": p @ p.T}
        return {name: round(float(part.std(correction=0)), 4) for name, part in parts.items()}

    none = torch.zeros_like(words)
    return {
        "i added": varied(words, counted),
        "waves added": varied(words, waves),
        "waves appended": varied(torch.cat([words, none], 1), torch.cat([none, waves], 1)),
    }


def _by_distance(products: NDArray[np.float64]) -> list[float]:
    """φ(i)·φ(i + δ) on average over i, over that of δ = 0."""
    means = [float(np.diag(products, distance).mean()) for distance in range(len(products))]
    return [round(mean / means[0], 6) for mean in means]


def _errors(count: int, decay: float) -> dict[str, list[tuple[int, float]]]:
    """The largest error up to distance n − 1, for each number of terms."""
    return {
        "from k = 0": [(m, largest_error(fourier_series(m, count, decay), count, decay)) for m in range(1, TERMS + 1)],
        "from k = 1": [
            (m, largest_error(fourier_series(m, count, decay, first=1), count, decay)) for m in range(1, TERMS + 1)
        ],
        "Gaussian": [
            (m, largest_error(Gaussian(2 * m, decay=decay, horizon=count - 1), count, decay)) for m in range(1, TERMS + 1)
        ],
    }  # fmt: skip


def _picture(
    found: Products,
    checks: dict[str, list[float]],
    terms: dict[str, dict[str, float]],
    curves: dict[str, list[float]],
    errors: dict[str, list[tuple[int, float]]],
    decay: float,
) -> Panels:
    count = len(found["[i]"])
    names = [str(place) for place in range(count)]
    notes = {
        "[i]": "i·j: the last wins", "i / n": "i·j / n²: changes with n", "x + i": "words drown",
        "sinusoidal": "depends on i − j", "Gaussian": f"exp(−{decay:g} (i − j)²)", "rotary": "one vector, turned",
        "untrained table": "no order yet", "trained table": "to average neighbours",
    }  # fmt: skip
    maps = [heatmap(each.clip(0), names, names, title=name, note=notes[name]) for name, each in found.items()]
    bell = [math.exp(-decay * distance**2) for distance in range(count)]
    lines = {**curves, f"exp(−{decay:g} δ²)": bell}
    near = Chart(
        title="φ(i)·φ(i + δ) / φ(i)·φ(i)",
        x="distance δ",
        series=[Series(name=name, points=list(enumerate(line))) for name, line in lines.items()],
        width=300.0,
    )
    far = Chart(
        title="Error of the Fourier series",
        x="terms of the series",
        y="largest error",
        log=True,
        series=[Series(name=name, points=each) for name, each in errors.items()],
        width=300.0,
    )
    tables = [_checked(checks), _parts(terms)]
    return Panels(
        title="Dot products of positions",
        note="φ(i) downwards, φ(j) across; negative products are drawn as 0",
        parts=[
            Maps((tuple(maps[:3]), tuple(maps[3:6]), tuple(maps[6:]))),
            PictureGrid(rows=[tables, [near, far]]),
        ],
    )


class Maps(Sheet):
    """Rows of small heat maps, side by side in a terminal too."""

    def terminal(self) -> RenderableType:
        """Two positions a line, without numbers."""
        rows = (
            ("", tuple(TerminalTile(levels=each.levels(), caption=each.title) for each in row))
            for row in self.rows
        )
        return Tiles(rows=tuple(rows))


def _checked(checks: dict[str, list[float]]) -> Matrix:
    values = np.array(list(checks.values()))
    return matrix(
        values,
        rows=list(checks),
        columns=_CHECKS,
        title="What φ should do",
        note="1.00: it does",
        top=1.0,
        marked=np.abs(values - 1) > 0.05,
    )


def _parts(terms: dict[str, dict[str, float]]) -> Matrix:
    values = np.array([list(part.values()) for part in terms.values()]).T
    return matrix(
        values,
        rows=list(next(iter(terms.values()))),
        columns=list(terms),
        title="Added against appended",
        note="parts of a score, x words and p positions: standard deviation",
        digits=1,
        top=20.0,
    )
