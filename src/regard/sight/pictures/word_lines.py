"""Lines between two sentences: each from a query to a key it looks at, the stronger the more it does."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from rich.color import Color
from rich.console import RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from regard.errors import RegardError
from regard.sight.pictures.colours import FAINT, HUES, INK, Colour, colour
from regard.sight.pictures.drawable import Weights, amounts, positive
from regard.sight.pictures.png import length
from regard.sight.pictures.scene import (
    MARGIN,
    NOTE,
    Box,
    Drawing,
    Label,
    Mark,
    Ribbon,
    Scene,
    amount,
    head,
    page,
    plain,
)

MAX_WORDS = 128  # words on a side
_FULL = 20_000  # lines: beyond, none is seen
_TEXT, _ROW, _SPAN = 15.0, 27.0, 250.0
_THICK = 6.5  # the line of the heaviest weight
_ALONE: Colour = colour(0.58)  # the lines of a single head
_BEST = 4  # keys named in the terminal


@dataclass(frozen=True, kw_only=True, eq=False)
class Lines(Drawing):
    """Weights between words on the left (queries) and on the right (keys); made by `lines`."""

    weights: Float[np.ndarray, "heads q k"]
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    heads: tuple[str, ...]
    focus: int | None
    least: float
    top: float
    title: str
    note: str

    @property
    def hues(self) -> tuple[Colour, ...]:
        """The colour of each head."""
        return HUES[: len(self.heads)] if len(self.heads) > 1 else (_ALONE,)

    def scene(self) -> Scene:
        """Queries on the left, keys on the right, lines between, the heads and their colours below."""
        marks, top, reach = head(self.title, self.note)
        top += 4 if self.title or self.note else 0
        left = MARGIN + max(length(word, _TEXT) for word in self.queries) + 10
        right = left + _SPAN
        count = max(len(self.queries), len(self.keys))
        starts = [top + _ROW * (count - len(side)) / 2 for side in (self.queries, self.keys)]
        marks += [self._ribbon(*line, (left, starts[0]), (right, starts[1])) for line in self._ordered()]
        marks += self._words(left, right, starts)
        bottom, end = top + count * _ROW, right + 10 + max(length(word, _TEXT) for word in self.keys)
        if len(self.heads) > 1:
            more, bottom, wide = self._legend(bottom + 8, max(end, reach) - MARGIN)
            marks, end = marks + more, max(end, wide)
        return page(self.title, marks, max(end, reach) + MARGIN, bottom + MARGIN)

    def terminal(self) -> RenderableType:
        """Each query and the keys it looks at most, for a rich console."""
        table = Table.grid(padding=(0, 2))
        for query, word in enumerate(self.queries):
            if self.focus is None or query == self.focus:
                table.add_row(*self._row(query, word))
        return table

    def _row(self, query: int, word: str) -> Iterator[Text]:
        yield Text(word, style="bold", no_wrap=True, justify="right")
        for hue, weights, name in zip(self.hues, self.weights[:, query], self.heads, strict=True):
            best = [key for key in np.argsort(-weights, kind="stable")[:_BEST] if weights[key] >= self.least]
            said = "  ".join(f"{self.keys[key]} {amount(float(weights[key]))}" for key in best)
            lead = f"{name}: " if len(self.heads) > 1 else "→ "
            text = Text(lead, style=Style(color=Color.from_rgb(*hue)))
            yield text.append(said or "–", style="default")

    def _ordered(self) -> list[tuple[int, int, int]]:
        """Lines (head, query, key) that are drawn: the faint first, those in focus last."""
        found = np.argwhere(self.weights >= self.least)
        weight = self.weights[tuple(found.T)]
        order = np.lexsort((weight, found[:, 1] == self.focus))
        return [(int(h), int(q), int(k)) for h, q, k in found[order]]

    def _ribbon(
        self, h: int, query: int, key: int, left: tuple[float, float], right: tuple[float, float]
    ) -> Ribbon:
        weight = float(self.weights[h, query, key])
        level = min(1.0, weight / self.top)
        # The lines of different heads start next to each other.
        apart = min(2.6, 13 / len(self.heads)) * (h - (len(self.heads) - 1) / 2)
        behind = self.focus is not None and query != self.focus
        name = f"{self.heads[h]}: " if len(self.heads) > 1 else ""
        return Ribbon(
            start=(left[0], left[1] + (query + 0.5) * _ROW + apart),
            end=(right[0], right[1] + (key + 0.5) * _ROW + apart),
            thick=0.7 + (_THICK - 0.7) * level / len(self.heads) ** 0.4,
            ink=FAINT if behind else self.hues[h],
            opacity=0.05 + 0.10 * level if behind else 0.16 + 0.70 * level,
            said=f"{name}{self.queries[query]} → {self.keys[key]}: {weight:.3g}",
        )

    def _words(self, left: float, right: float, starts: list[float]) -> list[Mark]:
        back: list[Mark] = []
        front: list[Mark] = []
        for index, word in enumerate(self.queries):
            y, chosen = starts[0] + (index + 0.5) * _ROW, index == self.focus
            if chosen:
                back.append(_pill(left - 16 - length(word, _TEXT), y, word, FAINT, 0.2))
            ink = INK if chosen or self.focus is None else FAINT
            front.append(Label(left - 9, y, word, _TEXT, ink, anchor="right"))
        for index, word in enumerate(self.keys):
            y, ink = starts[1] + (index + 0.5) * _ROW, INK
            if self.focus is not None:
                looked = self.weights[:, self.focus, index]
                strength, best = float(looked.max()) / self.top, int(looked.argmax())
                if looked.max() >= self.least:
                    back.append(_pill(right + 2, y, word, self.hues[best], 0.06 + 0.4 * min(1.0, strength)))
                else:
                    ink = FAINT
            front.append(Label(right + 9, y, word, _TEXT, ink))
        return back + front

    def _legend(self, y: float, room: float) -> tuple[list[Mark], float, float]:
        """The heads and their colours, in as many rows as they need: marks, where they end, how far right."""
        marks: list[Mark] = []
        x, widest = MARGIN, MARGIN
        for name, hue in zip(self.heads, self.hues, strict=True):
            width = 20 + length(name, NOTE)
            if x > MARGIN and x + width > MARGIN + room:
                x, y = MARGIN, y + 20
            marks.append(Box(x=x, y=y + 4, width=12, height=12, fill=hue, corner=2.5))
            marks.append(Label(x + 18, y + 10, name, NOTE, FAINT))
            x, widest = x + width + 14, max(widest, x + width)
        return marks, y + 20, widest


def lines(
    weights: Weights,
    queries: Sequence[str],
    keys: Sequence[str],
    *,
    heads: Sequence[str] | None = None,
    focus: int | None = None,
    least: float = 0.05,
    title: str = "",
    note: str = "",
    top: float | None = None,
) -> Lines:
    """Lines from each query (left) to the keys (right) it looks at, for weights [q, k] or [heads, q, k].

    A line is wider and stronger the larger its weight; below `least` there is none. Each head has a colour. With
    `focus`, the place of one query, its lines are strong and the others pale. `top` is the weight of the
    strongest line, by default the largest one.
    """
    values = amounts("weights", weights)
    values = values[None] if values.ndim == 2 else values
    if values.ndim != 3 or values.shape[1:] != (len(queries), len(keys)):
        raise RegardError(
            f"weights {values.shape} for {len(queries)} queries and {len(keys)} keys: give [queries, keys] or "
            "[heads, queries, keys]"
        )
    if not values.size or max(values.shape[1:]) > MAX_WORDS or len(values) > len(HUES):
        raise RegardError(
            f"weights {values.shape}: lines are drawn for 1 to {len(HUES)} heads and 1 to {MAX_WORDS} words; choose some"
        )
    heads = [f"head {h}" for h in range(len(values))] if heads is None else heads
    names = [plain(name, 32) for name in heads]
    if len(names) != len(values):
        raise RegardError(f"{len(names)} names for {len(values)} heads")
    if focus is not None and not 0 <= focus < len(queries):
        raise RegardError(f"focus={focus}, but the queries are 0 to {len(queries) - 1}")
    if not 0 <= least <= 1 or (values >= least).sum() > _FULL:
        raise RegardError(
            f"least={least} draws {(values >= least).sum()} lines: give a weight between 0 and 1 that leaves at most "
            f"{_FULL}"
        )
    return Lines(
        weights=values,
        queries=tuple(plain(word) for word in queries),
        keys=tuple(plain(word) for word in keys),
        heads=tuple(names),
        focus=focus,
        least=least,
        top=positive("top", top) or float(values.max()) or 1.0,
        title=plain(title, 96),
        note=plain(note, 160),
    )


def _pill(x: float, y: float, word: str, ink: Colour, opacity: float) -> Box:
    width = length(word, _TEXT) + 14
    return Box(x=x, y=y - 10.5, width=width, height=21, fill=ink, opacity=opacity, corner=6)
