"""A timeline: how much each moment of a sound looks at each word, on an axis of seconds under what was heard."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, UInt8
from rich.console import RenderableType

from regard.errors import RegardError
from regard.sight.pictures.colours import FAINT, INK, shade
from regard.sight.pictures.drawable import Photo, Weights, amounts, levels, photo, positive
from regard.sight.pictures.heatmap import heatmap, weight_scale
from regard.sight.pictures.png import length
from regard.sight.pictures.scene import (
    MARGIN,
    Drawing,
    Label,
    Mark,
    Pixels,
    Scene,
    Stroke,
    amount,
    head,
    page,
    plain,
)

MAX_WORDS, MAX_MOMENTS = 64, 4096
_WIDE, _HEARD, _ROW, _GAP = 600.0, 110.0, 26.0, 8.0  # width of the axis, height of the spectrogram, of a word
_TEXT, _SMALL, _TICK = 15.0, 11.0, 4.0
_STEPS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0)
_MOST_TICKS = 12


@dataclass(frozen=True, kw_only=True, eq=False)
class Timeline(Drawing):
    """Weights of words over time; made by `timeline`."""

    weights: Float[np.ndarray, "words moments"]
    words: tuple[str, ...]
    heard: UInt8[np.ndarray, "height width 3"]
    seconds: float
    pooled: Float[np.ndarray, " moments"] | None
    top: float
    title: str
    note: str

    def ticks(self) -> list[float]:
        """The seconds that are written on the axis, at most a dozen."""
        step = next((each for each in _STEPS if self.seconds / each <= _MOST_TICKS), self.seconds)
        return [step * number for number in range(int(self.seconds / step + 1e-9) + 1)]

    def scene(self) -> Scene:
        """The spectrogram, a row of cells for each word, what the answer was read from, and the axis."""
        marks, y, reach = head(self.title, self.note)
        y += 4 if marks else 0
        names = [*self.words, "pooled", "heard"]
        left = math.ceil(MARGIN + max(length(name, _TEXT) for name in names) + _GAP)
        marks.append(Label(left - _GAP, y + _HEARD / 2, "heard", _TEXT, FAINT, anchor="right"))
        marks.append(Pixels(x=left, y=y, width=_WIDE, height=_HEARD, pixels=self.heard, said="heard"))
        y = first = y + _HEARD + _GAP
        for word, row in zip(self.words, self.weights, strict=True):
            marks += self._row(left, y, word, row, self.top, f"{word}: {amount(row.mean())} on average")
            y += _ROW
        marks += weight_scale(left + _WIDE + 16, first, max(y - first, 3 * _ROW), self.top, _SMALL)
        if self.pooled is not None:
            y += _GAP
            marks += self._row(
                left, y, "pooled", self.pooled, self.pooled.max(), "what the answer was read from"
            )
            y += _ROW
        y += 3
        marks.append(Stroke(((left, y), (left + _WIDE, y)), 1.0, FAINT))
        for second in self.ticks():
            x = left + _WIDE * second / self.seconds
            marks.append(Stroke(((x, y), (x, y + _TICK)), 1.0, FAINT))
            marks.append(Label(x, y + _TICK + _SMALL, f"{second:.4g}", _SMALL, FAINT, anchor="middle"))
        end = left + _WIDE + 16
        marks.append(Label(end, y + _TICK + _SMALL, "seconds", _SMALL, FAINT))
        width = max(end + length("seconds", _SMALL), reach) + MARGIN
        return page(self.title, marks, width, y + _TICK + 2 * _SMALL + MARGIN)

    def _row(
        self, x: float, y: float, name: str, row: Float[np.ndarray, " moments"], top: float, said: str
    ) -> list[Mark]:
        colours = shade(levels(row[None], float(top)))
        ink = INK if name in self.words else FAINT
        return [
            Label(x - _GAP, y + _ROW / 2, name, _TEXT, ink, anchor="right"),
            Pixels(x=x, y=y + 1, width=_WIDE, height=_ROW - 2, pixels=colours, said=said),
        ]

    def terminal(self) -> RenderableType:
        """The rows of words for a rich console."""
        times = [
            f"{self.seconds * (n + 0.5) / self.weights.shape[1]:.2f}" for n in range(self.weights.shape[1])
        ]
        return heatmap(self.weights, self.words, times, top=self.top).terminal()


def timeline(
    weights: Weights,
    words: Sequence[str],
    heard: Photo,
    seconds: float,
    *,
    pooled: Weights | None = None,
    top: float | None = None,
    title: str = "",
    note: str = "",
) -> Timeline:
    """How much each moment looks at each word: weights [words, moments], moments equally long, in all `seconds`.

    `heard` is drawn above, over the same seconds, such as `spectrogram(bands)`. `pooled` [moments] is what a pooling took
    of each moment. `top` is the weight of the darkest colour, by default the largest.
    """
    values = amounts("weights", weights)
    if (
        values.ndim != 2
        or len(values) != len(words)
        or not 0 < len(values) <= MAX_WORDS
        or not 0 < values.shape[1] <= MAX_MOMENTS
    ):
        raise RegardError(
            f"weights {values.shape} for {len(words)} words: give [words, moments], at most {MAX_WORDS} words and "
            f"{MAX_MOMENTS} moments"
        )
    taken = None if pooled is None else amounts("pooled", pooled)
    if taken is not None and taken.shape != values.shape[1:]:
        raise RegardError(f"pooled {taken.shape} for {values.shape[1]} moments: give one weight each")
    if not (math.isfinite(seconds) and seconds > 0):
        raise RegardError(f"seconds={seconds}: give how long the sound is, above 0")
    return Timeline(
        weights=values,
        words=tuple(plain(word) or "␣" for word in words),
        heard=photo(heard),
        seconds=float(seconds),
        pooled=taken,
        top=positive("top", top) or float(values.max()),
        title=plain(title, 96),
        note=plain(note, 160),
    )
