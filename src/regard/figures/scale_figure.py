"""Why scores are divided by √d: the variance of q·k over d, and what it does to softmax and its gradient."""

import math
from typing import Annotated

import torch
from torch import Tensor

from regard.attention.scores import Dot, ScaledDot
from regard.attention.weights import softmax
from regard.errors import RegardError
from regard.figures.figure_result import FigureResult
from regard.sight.pictures.chart import Chart, Series
from regard.sight.pictures.scene import PictureGrid

SCORES = {"q·k": Dot(), "q·k / √d": ScaledDot()}
_TOGETHER = 2**22  # numbers drawn at a time
_SHOWN = 16  # of the weights of one query


def scale(
    *,
    seed: Annotated[int, "Draws queries and keys, all features independent with variance 1."] = 0,
    widths: Annotated[int, "How many widths d: 1, 2, 4, 8 and so on."] = 11,
    keys: Annotated[int, "Keys that a query looks at."] = 64,
    queries: Annotated[int, "Queries for each width, each with keys of its own."] = 400,
) -> FigureResult:
    """The variance of q·k with and without 1/√d, and the entropy and the gradient of softmax over such scores.

    Var(q·k) = d for independent features of variance 1, so softmax(q·k) of wide vectors is nearly one-hot, and its
    gradient ∂Aᵢ/∂sⱼ = Aᵢ (δᵢⱼ − Aⱼ) nearly 0 (Vaswani 2017, footnote 4).
    """
    bounds = {"--seed": (seed, 0, 2**31), "--widths": (widths, 2, 12), "--keys": (keys, 2, 4096), "--queries": (queries, 2, 4096)}  # fmt: skip
    for option, (given, low, high) in bounds.items():
        if not low <= given <= high:
            raise RegardError(f"{option} {given}: give {low} to {high}")
    sizes = [2**power for power in range(widths)]
    measured: dict[str, dict[str, list[float]]] = {name: {} for name in SCORES}
    sample: dict[str, list[float]] = {}
    for width in sizes:
        for name, scores in _drawn(seed, width, keys, queries).items():
            weights = softmax(scores)
            for what, value in _measures(scores, weights).items():
                measured[name].setdefault(what, []).append(float(f"{value:.6g}"))
            sample[name] = [round(weight, 6) for weight in weights[0].sort(descending=True).values.tolist()]
    flat = math.log(keys)
    wide = sizes[-1]
    plain, scaled = (measured[name] for name in SCORES)
    return FigureResult(
        name="scale",
        picture=PictureGrid(
            rows=[
                [
                    _chart("Variance of the score", sizes, measured, "variance", log=True),
                    _chart(f"Entropy of the weights (at most ln {keys} = {flat:.2f})", sizes, measured, "entropy"),
                ],
                [
                    _chart("Gradient of softmax, Σᵢ ∂Aᵢ/∂sᵢ", sizes, measured, "gradient"),
                    Chart(
                        title=f"Weights of one query at d = {wide}",
                        x="key, the heaviest first",
                        series=[
                            Series(name=name, points=list(enumerate(each[:_SHOWN], start=1)))
                            for name, each in sample.items()
                        ],
                        width=300,
                        height=190,
                    ),
                ],
            ],
            title="Why scores are divided by √d",
            note=f"features of q and k independent, with variance 1; {queries} queries over {keys} keys each",
        ),
        numbers={
            "seed": seed, "keys": keys, "queries": queries, "widths": sizes, **measured,
            f"weights of one query at d = {wide}": sample,
        },
        see=(
            f"The variance of q·k is d: {plain['variance'][-1]:,.0f} at d = {wide}. Divided by √d it stays 1: {scaled['variance'][-1]:.2f}.",
            f"Without it the entropy falls from {plain['entropy'][0]:.2f} to {plain['entropy'][-1]:.2f} nats: nearly one key takes all; with it, {scaled['entropy'][-1]:.2f}.",
            f"And the gradient of softmax falls from {plain['gradient'][0]:.2f} to {plain['gradient'][-1]:.2f}, so training changes scores little; with it, {scaled['gradient'][-1]:.2f}.",
        ),
    )  # fmt: skip


def _drawn(seed: int, width: int, keys: int, queries: int) -> dict[str, Tensor]:
    """The scores [queries, keys] of independent vectors, by name of the score."""
    random = torch.Generator().manual_seed(seed + width)
    found: dict[str, list[Tensor]] = {name: [] for name in SCORES}
    at_once = max(1, _TOGETHER // (width * keys))
    for start in range(0, queries, at_once):
        count = min(at_once, queries - start)
        query = torch.randn(count, 1, width, generator=random).double()
        key = torch.randn(count, keys, width, generator=random).double()
        for name, score in SCORES.items():
            found[name].append(score(query, key)[:, 0])
    return {name: torch.cat(parts) for name, parts in found.items()}


def _measures(scores: Tensor, weights: Tensor) -> dict[str, float]:
    """The variance of all scores; means over the queries of the entropy in nats and of Σᵢ Aᵢ (1 − Aᵢ)."""
    return {
        "variance": float(scores.var()),
        "entropy": float(-torch.special.xlogy(weights, weights).sum(-1).mean()),
        "gradient": float((weights * (1 - weights)).sum(-1).mean()),
    }


def _chart(
    title: str, sizes: list[int], measured: dict[str, dict[str, list[float]]], what: str, *, log: bool = False
) -> Chart:
    series = [
        Series(name=name, points=list(zip(sizes, lines[what], strict=True)))
        for name, lines in measured.items()
    ]
    return Chart(title=title, x="width d", series=series, log=log, log_x=True, width=300, height=190)
