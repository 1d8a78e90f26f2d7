"""The hall: exhibits that are open to be asked about. Touching one opens another."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from jaxtyping import Float
from torch import Tensor

from regard import __version__
from regard.errors import RegardError
from regard.sight.explorer.exhibit import Change, Exhibit, Panel, Subject, Touched
from regard.sight.explorer.tiles import TILE
from regard.sight.selection import positions

TOUCHED = 8  # touched exhibits that stay open


class GoneError(RegardError):
    """An exhibit was open once, and is no longer."""


class Hall:
    """Exhibits by number. Those it begins with stay; of touched ones only the last few do."""

    def __init__(self, exhibits: Sequence[Exhibit], *, title: str = "regard") -> None:
        if not exhibits:
            raise RegardError("there is nothing to explore: no exhibit was given")
        self.title = title
        self._open = dict(enumerate(exhibits))
        self._stay, self._next = len(exhibits), len(exhibits)
        self._door, self._model = threading.Lock(), threading.Lock()

    def exhibit(self, number: int) -> Exhibit:
        """An open exhibit."""
        with self._door:
            found = self._open.get(number)
        if found is None and 0 <= number < self._next:
            raise GoneError(f"exhibit {number} was let go: only the last {TOUCHED} changed ones are kept")
        if found is None:
            raise RegardError(f"exhibit {number}, but there are only {self._next}")
        return found

    def panel(self, exhibit: int, layer: int, entry: int) -> Panel:
        """A layer of an exhibit, which has such an entry."""
        panels = self.exhibit(exhibit).panels
        panel = panels[positions(layer, len(panels), "layer")[0]]
        positions(entry, len(panel.sizes), "entry")
        return panel

    def manifest(self) -> dict[str, Any]:
        """What the page asks first."""
        with self._door:
            shown = sorted(self._open.items())
        return {
            "version": 1,
            "title": self.title,
            "library": __version__,
            "mode": "served",
            "tile": TILE,
            "exhibits": [exhibit.manifest(number) for number, exhibit in shown],
        }

    def importance(self, exhibit: int, layer: int) -> Float[Tensor, " heads"]:
        """How much the first answer needs each head of a layer."""
        panel = self.panel(exhibit, layer, 0)
        shown, subject = self._subject(exhibit)
        with self._model:
            return subject.importance(shown, panel)

    def touch(
        self, exhibit: int, inputs: Mapping[str, str], changes: Sequence[Change]
    ) -> tuple[dict[str, Any], list[int]]:
        """Run a model again, its input or its attention changed. What becomes of it, and the exhibits let go for it."""
        _, subject = self._subject(exhibit)
        unknown = [name for name in inputs if name not in subject.inputs]
        if unknown:
            raise RegardError(
                f"input {unknown[0]!r} cannot be changed: {', '.join(subject.inputs) or 'none'} can"
            )
        with self._model:
            made = subject.look(inputs, changes)
        made = replace(made, touched=Touched(of=exhibit, inputs=dict(inputs), changes=tuple(changes)))
        with self._door:
            number = self._next
            self._open[number], self._next = made, number + 1
            gone = sorted(self._open)[self._stay : -TOUCHED] if len(self._open) > self._stay + TOUCHED else []
            for old in gone:
                del self._open[old]
        return made.manifest(number), gone

    def _subject(self, exhibit: int) -> tuple[Exhibit, Subject]:
        shown = self.exhibit(exhibit)
        if shown.subject is None:
            raise RegardError(f"{shown.name}: there is no model to run again, only what was seen of it")
        return shown, shown.subject
