"""The counter's picture: the digits, the weight on each, what each sends, the answer; and how it learned."""

from dataclasses import dataclass
from os import PathLike
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from rich.console import Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from regard.data.batches import Labelled, Sequences
from regard.data.digit_counts import FIRST, LABELS
from regard.errors import RegardError
from regard.sight.pictures.colours import FAINT, HATCH, HUES, INK, MARKED, code, colour, readable
from regard.sight.pictures.curves import loss_of
from regard.sight.pictures.png import length
from regard.sight.pictures.scene import (
    MARGIN,
    NOTE,
    Box,
    Drawing,
    Label,
    Mark,
    Panels,
    Scene,
    Stroke,
    head,
    page,
    plain,
)

MAX_SAMPLES = 32  # samples
_CELL, _APART = 40.0, 20.0
_INSET = 2.5  # of the outline of a 4 or a 2
_NUMBER = 16.0  # the row of weights
_REACH = 24.0  # the longest bar of a value, up or down
_FOR, _AGAINST = HUES[0], HUES[1]  # what speaks for more 4s, and what against
_NOTE = (
    "dark: looked at much · outlined: 4s and 2s · below: what the digit sends, up for the 4s, down for the 2s"
)


@runtime_checkable
class CountingModel(Protocol):
    """What can be drawn: the counter, or a model like it."""

    def predict(self, batch: Sequences) -> Float[torch.Tensor, "b classes"]:
        """The log-probability of no and of yes."""

    def weights(self, batch: Sequences) -> Float[torch.Tensor, "b n"]:
        """How much it looks at each digit."""

    def values(self, batch: Sequences) -> Float[torch.Tensor, "b n value"]:
        """What each digit sends."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Counting(Drawing):
    """Some samples of the counter's task as a trained counter sees them; made by `counting`."""

    digits: Int[np.ndarray, "b n"]
    weights: Float[np.ndarray, "b n"]
    values: Float[np.ndarray, "b n"]  # what a digit sends, along the line from what 2s to what 4s send
    yes: Float[np.ndarray, " b"]  # p(more 4s than 2s)
    labels: Int[np.ndarray, " b"] | None = None
    title: str = "More 4s than 2s?"
    note: str = _NOTE
    numbered: bool = False  # values are written at the bars of digits that are looked at

    def scene(self) -> Scene:
        """A row for each sample: digits on their weights, the weights, the values up or down, the answer."""
        marks, top, reach = head(self.title, self.note)
        right = MARGIN + self.digits.shape[1] * _CELL + 26
        top += 6
        step = _CELL + _NUMBER + 2 * _REACH + _APART
        for row in range(len(self.digits)):
            marks += self._row(row, top + row * step)
            marks += self._answer(row, right, top + row * step)
        width = max(reach, right + length("yes, 100.0 %", 19.0)) + MARGIN
        return page(self.title, marks, width, top + len(self.digits) * step - _APART + MARGIN / 2)

    def terminal(self) -> RenderableType:
        """A table for a rich console: the digits on their weights, and the values under them."""
        table = Table.grid(padding=(0, 0))
        for row in range(len(self.digits)):
            weights, values = self.weights[row], self._shares(row)
            digits, below = Text(), Text()
            for digit, weight, value in zip(self.digits[row], weights, values, strict=True):
                back = colour(self._level(row, float(weight)))
                style = Style(color=code(readable(back)), bgcolor=code(back))
                digits.append(f"[{digit}]".center(5) if digit in (2, 4) else f"  {digit}  ", style)
                size = f"{'▲' if value > 0 else '▼'}{abs(value):.1f}" if abs(value) >= 0.1 else "·"
                attended = self._attended(float(weight))
                below.append(
                    size.center(5), Style(color=code(_FOR if value > 0 else _AGAINST), dim=not attended)
                )
            percents = Text("".join(f"{100 * weight:.0f}%".center(5) for weight in weights), style="dim")
            table.add_row(digits, Text(f"  {self._said(row)}", style="bold"))
            table.add_row(percents, Text(f"  {self._truth(row)}", style="dim"))
            table.add_row(below)
            table.add_row("")
        return Group(Text(plain(self.title, 96), style="bold"), table)

    def _level(self, row: int, weight: float) -> float:
        """A weight divided by the largest of its sample, so that samples with more 4s and 2s are not paler."""
        return weight / max(float(self.weights[row].max()), 1e-12)

    def _attended(self, weight: float) -> bool:
        """Whether a digit gets more than an even share of the weight, one in ten; otherwise it sends in vain."""
        return weight - 1 / self.digits.shape[1] > 1e-6  # beyond rounding

    def _shares(self, row: int) -> Float[np.ndarray, " n"]:
        """The values as parts of the largest of all."""
        return self.values[row] / max(float(np.abs(self.values).max()), 1e-12)

    def _row(self, row: int, top: float) -> list[Mark]:
        marks: list[Mark] = []
        zero = top + _CELL + _NUMBER + _REACH + 4
        end = MARGIN + self.digits.shape[1] * _CELL - 2
        marks.append(Stroke(((MARGIN, zero), (end, zero)), 1.0, HATCH))
        for place, digit in enumerate(self.digits[row]):
            weight, value = float(self.weights[row, place]), float(self._shares(row)[place])
            x = MARGIN + place * _CELL
            back = colour(self._level(row, weight))
            said = f"{digit}: weight {weight:.3g}, sends {self.values[row, place]:+.3g}"
            marks.append(Box(x=x, y=top, width=_CELL - 2, height=_CELL - 2, fill=back, corner=4, said=said))
            if digit in (2, 4):
                inner = _CELL - 2 - 2 * _INSET
                marks.append(
                    Box(x=x + _INSET, y=top + _INSET, width=inner, height=inner, edge=MARKED, thick=2.5)
                )
            middle = x + (_CELL - 2) / 2
            marks.append(
                Label(middle, top + _CELL / 2 - 1, str(digit), 19.0, readable(back), anchor="middle")
            )
            ink = INK if weight >= 0.05 else FAINT
            marks.append(Label(middle, top + _CELL + 7, _short(weight), 10.5, ink, anchor="middle"))
            tall = abs(value) * _REACH
            if tall >= 0.5:
                fill = (_FOR if value > 0 else _AGAINST) if self._attended(weight) else HATCH
                y = zero - tall if value > 0 else zero
                marks.append(Box(x=middle - 7, y=y, width=14, height=tall, fill=fill, said=said))
            if self.numbered and self._attended(weight):
                text = f"{self.values[row, place]:+.1f}".replace("-", "−")
                beyond = zero + 9 if value > 0 else zero - 9  # on the side without the bar
                marks.append(Label(middle, beyond, text, 10.5, anchor="middle"))
        return marks

    def _answer(self, row: int, x: float, top: float) -> list[Mark]:
        y = top + _CELL / 2 - 1
        wrong = self.labels is not None and int(self.yes[row] > 0.5) != int(self.labels[row])
        ink = _AGAINST if wrong else FAINT
        return [Label(x, y, self._said(row), 15.0), Label(x, y + 22, self._truth(row), NOTE, ink)]

    def _said(self, row: int) -> str:
        yes = float(self.yes[row])
        return f"{LABELS[yes > 0.5]}, {100 * max(yes, 1 - yes):.1f} %"

    def _truth(self, row: int) -> str:
        """How many there are, and so what the answer should be."""
        fours, twos = ((self.digits[row] == digit).sum() for digit in (4, 2))
        count = f"{fours} × 4, {twos} × 2"
        if self.labels is None:
            return count
        label = int(self.labels[row])
        return count if label == int(self.yes[row] > 0.5) else f"{count}: wrong, {LABELS[label]}"


def counting(
    model: CountingModel, batch: Labelled | Sequences, *, log: str | PathLike[str] | None = None
) -> Panels:
    """What a counter looks at in some samples, what the digits send and what it answers; with a log, how it learned."""
    return Panels(parts=[counted(model, batch), *(() if log is None else [loss_of(log)])])


def counted(model: CountingModel, batch: Labelled | Sequences) -> Counting:
    """What a counter looks at in some samples, what the digits send and what it answers.

    A digit sends a few numbers. They are shown as one: how far along the line from what a 2 sends to what a 4
    sends, which is what the answer depends on, with the middle of the two at 0.
    """
    sequences, labels = (batch.inputs, batch.labels) if isinstance(batch, Labelled) else (batch, None)
    if not 1 <= len(sequences) <= MAX_SAMPLES:
        raise RegardError(f"{len(sequences)} samples: a picture shows from 1 to {MAX_SAMPLES}")
    with torch.no_grad():
        values = model.values(sequences).double()
        return Counting(
            digits=(sequences.tokens - FIRST).cpu().numpy(),
            weights=model.weights(sequences).double().cpu().numpy(),
            values=_along(model, values).cpu().numpy(),
            yes=model.predict(sequences)[:, 1].double().exp().cpu().numpy(),
            labels=None if labels is None else labels.cpu().numpy(),
        )


def _along(model: CountingModel, values: Float[torch.Tensor, "b n value"]) -> Float[torch.Tensor, "b n"]:
    """(v − (v₄ + v₂)/2) · (v₄ − v₂) / |v₄ − v₂|²: 4s at ½, 2s at −½."""
    pair = torch.tensor([[FIRST + 4, FIRST + 2]], device=values.device)
    four, two = model.values(Sequences(pair, torch.tensor([2], device=values.device)))[0].double()
    line = four - two
    return (values - (four + two) / 2) @ line / line.square().sum().clamp_min(1e-24)


def _short(weight: float) -> str:
    return "0" if weight < 0.005 else f"{weight:.2f}".removeprefix("0")
