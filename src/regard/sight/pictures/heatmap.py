"""A heat map: how much each query looks at each key, as a value that can be drawn on paper and in a terminal."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from rich.console import RenderableType
from torch import Tensor

from regard.errors import RegardError
from regard.sight.pictures.labels import plain

MOST = 2048  # cells along an edge: beyond, no screen shows them apart


@dataclass(frozen=True, kw_only=True, eq=False)
class Heatmap:
    """Weights with their tokens; made by `heatmap`."""

    weights: Float[np.ndarray, "q k"]
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    allowed: Bool[np.ndarray, "q k"]
    title: str
    note: str
    top: float
    aside: int = 0  # of the last keys: no words, but what weights also go to; drawn in grey

    @property
    def levels(self) -> NDArray[np.float64]:
        """The weights as parts of the darkest one."""
        return self.weights / self.top if self.top > 0 else np.zeros_like(self.weights)

    def png(self, path: str | PathLike[str]) -> None:
        """Write the picture as PNG, at twice the size it is meant to be seen at."""
        from regard.sight.pictures.raster import draw, save

        save(draw(self), path)

    def svg(self, path: str | PathLike[str]) -> None:
        """Write the picture as SVG, where each cell names its weight when pointed at."""
        from regard.sight.pictures.vector import save, write

        save(write(self), path)

    def write(self, path: str | PathLike[str]) -> None:
        """Write the picture as PNG or SVG, by the suffix of the file."""
        from regard.sight.pictures.scene import write

        write(self, path)

    def _repr_html_(self) -> str:
        from regard.sight.pictures.markup import inline
        from regard.sight.pictures.vector import write

        return inline(write(self))

    def terminal(self, *, compact: bool = False) -> RenderableType:
        """The picture for a rich console: with labels, or compact, without and two queries a line."""
        from regard.sight.pictures.terminal import TerminalMap

        return TerminalMap(self, compact=compact)


def heatmap(
    weights: Tensor | NDArray[np.floating] | Sequence[Sequence[float]],
    queries: Sequence[str],
    keys: Sequence[str],
    *,
    allowed: Tensor | NDArray[np.bool_] | None = None,
    title: str = "",
    note: str = "",
    top: float | None = None,
    aside: int = 0,
) -> Heatmap:
    """A heat map of weights [q, k], a token for each query (downwards) and each key (across).

    Cells that are False in `allowed` are hatched. `top` is the weight of the darkest colour, by default the
    largest one; give several maps the same `top` to compare them. The last `aside` keys are set apart in grey, as the
    end token of a sentence.
    """
    values = _matrix("weights", weights).astype(np.float64)
    if values.shape != (len(queries), len(keys)):
        raise RegardError(
            f"weights {values.shape} for {len(queries)} queries and {len(keys)} keys: give one token a row and one "
            "a column"
        )
    if not values.size or max(values.shape) > MOST:
        raise RegardError(
            f"weights {values.shape}: a picture has from 1 to {MOST} queries and keys; choose or pool"
        )
    seen = np.ones(values.shape, dtype=bool) if allowed is None else _matrix("allowed", allowed)
    if seen.shape != values.shape or seen.dtype != np.bool_:
        raise RegardError(
            f"allowed is {seen.dtype} {seen.shape}, the weights are {values.shape}: give a bool for each cell, "
            "True = may look"
        )
    if not np.isfinite(values).all() or (values < 0).any():
        worst = values[~np.isfinite(values) | (values < 0)][0]
        raise RegardError(
            f"a weight is {worst}: weights are finite and at least 0; scores go through weigh first"
        )
    if not 0 <= aside < len(keys):
        raise RegardError(f"aside={aside} of {len(keys)} keys: set fewer than all apart")
    if top is not None and not (np.isfinite(top) and top > 0):
        raise RegardError(f"top={top}: give a positive number")
    return Heatmap(
        weights=values,
        queries=tuple(plain(token) for token in queries),
        keys=tuple(plain(token) for token in keys),
        allowed=seen,
        title=plain(title, 96),
        note=plain(note, 160),
        top=float(values.max()) if top is None else float(top),
        aside=aside,
    )


def _matrix(name: str, given: object) -> NDArray[np.generic]:
    if isinstance(given, Tensor):
        given = given.detach().cpu()
        given = given.double() if given.is_floating_point() else given
        matrix = given.numpy()
    else:
        matrix = np.asarray(given)
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiub":
        raise RegardError(
            f"{name} is {matrix.dtype} {matrix.shape}: a heat map shows one matrix of numbers [queries, keys]; "
            "choose one of the batch and one head"
        )
    return matrix
