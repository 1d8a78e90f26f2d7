"""Exhibits: one input that went through one model, with its attention and the labels of its axes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from regard.attention.call import Call
from regard.errors import RegardError
from regard.sight.layer import Layer
from regard.sight.selection import part, picked

ExampleKind = Literal["attention", "translation", "language", "classes", "image", "sound", "senses"]


@dataclass(frozen=True, kw_only=True)
class Text:
    """Tokens along an axis, one list for each entry, as they are: nothing is made visible or left out here."""

    name: str
    tokens: tuple[tuple[str, ...], ...]

    def length(self, entry: int) -> int:
        """How many tokens an entry has."""
        return len(self.tokens[entry])


@dataclass(frozen=True, kw_only=True, eq=False)
class Picture:
    """Patches of a picture along an axis, or frames of a spectrogram, after some tokens of the model's own."""

    name: str
    pixels: tuple[NDArray[np.uint8], ...]  # [height, width, 3], one for each entry
    grid: tuple[int, int]
    special: tuple[str, ...] = ()
    seconds: float | None = None  # of a sound

    def length(self, entry: int) -> int:
        """How many positions there are."""
        return len(self.special) + self.grid[0] * self.grid[1]


@dataclass(frozen=True, kw_only=True)
class Plain:
    """Positions of which nothing is known."""

    name: str = "positions"

    def length(self, entry: int) -> None:
        """Unknown."""


Side = Text | Picture | Plain


@dataclass(frozen=True, kw_only=True, eq=False)
class Panel:
    """One attention call of an example, and the sides that its queries and keys are of."""

    layer: Layer
    query_side: int
    key_side: int
    sizes: tuple[tuple[int, int], ...]  # queries and keys of each entry, padding cut off
    cross: bool = False
    name: str = ""

    @property
    def heads(self) -> int:
        """How many heads there are; a call without batch axes has one."""
        return self.layer.shape[-3] if len(self.layer.shape) > 2 else 1

    def call(self, entry: int, heads: Sequence[int] | None = None) -> Call:
        """The attention of one entry, of all heads or of some."""
        call = self.layer.intact()
        axes = call.query.shape[:-2]
        if axes:
            # A reader asked once for several hypotheses has fewer rows than there are entries.
            own = entry * axes[:-1].numel() // len(self.sizes)
            chosen = [[int(place)] for place in np.unravel_index(own, axes[:-1])]
            call = picked(call, [*chosen, list(range(axes[-1]) if heads is None else heads)])
        queries, keys = self.sizes[entry]
        if (queries, keys) == (call.extent.queries, call.extent.keys):
            return call
        return part(call, range(queries), range(keys))


@dataclass(frozen=True, kw_only=True)
class Step:
    """One token that was generated, and what else was likely."""

    token: str
    probability: float
    position: int  # the query of the target side that made it
    alternatives: tuple[tuple[str, float], ...]


@dataclass(frozen=True, kw_only=True)
class Branch:
    """A beginning of a text that a step of a beam could choose."""

    text: str  # all of it
    token: str  # its last one
    logprob: float  # of all of it
    fate: Literal["lives", "ended", "fell"]  # it goes on, it is finished, or others were likelier
    leads: tuple[int, ...]  # the entries that begin with it
    until: int  # the last step at which something of it was left


@dataclass(frozen=True, kw_only=True)
class Output:
    """What the model answered to an entry."""

    text: str | None = None
    classes: tuple[tuple[str, float], ...] | None = None
    steps: tuple[Step, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A row of the batch: an input of its own, or a hypothesis of a beam."""

    name: str
    score: float | None = None
    logprob: float | None = None


@dataclass(frozen=True, kw_only=True)
class Change:
    """Something done to the attention of a module: heads dropped, scaled or made uniform, or pairs forbidden."""

    kind: Literal["drop", "scale", "uniform", "forbid"]
    layer: str
    heads: tuple[int, ...] | None = None
    factor: float = 1.0
    queries: tuple[int, ...] | None = None
    keys: tuple[int, ...] | None = None


@runtime_checkable
class Subject(Protocol):
    """A model with an input, which can be run again with another input or with its attention changed."""

    @property
    def inputs(self) -> dict[str, str]:
        """What a person may edit, by name."""

    def look(self, inputs: Mapping[str, str], changes: Sequence[Change]) -> "Example":
        """The example of these inputs (those left out stay) under these changes."""

    def importance(self, example: "Example", panel: Panel) -> Float[Tensor, " heads"]:
        """How much less likely the first answer gets without each head, in nats."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Touched:
    """What was done to an example."""

    of: int
    inputs: Mapping[str, str]
    changes: tuple[Change, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Example:
    """What there is to see of one input."""

    name: str
    kind: ExampleKind
    sides: tuple[Side, ...]
    panels: tuple[Panel, ...]
    entries: tuple[Entry, ...]
    about: str = ""
    outputs: tuple[Output, ...] | None = None
    search: tuple[tuple[Branch, ...], ...] | None = None  # what each step of a beam had to choose from
    subject: Subject | None = None
    touched: Touched | None = None

    def __post_init__(self) -> None:
        if not self.panels:
            raise RegardError(
                "no attention was seen, so there is nothing to explore: run the model inside `with watch(...)`"
            )

    @property
    def changes(self) -> tuple[Change, ...]:
        """The changes to attention that it was made with."""
        return () if self.touched is None else self.touched.changes

    def manifest(self, number: int) -> dict[str, Any]:
        """What the page gets first (web/PROTOCOL.md, EXHIBIT)."""
        subject = self.subject
        return {
            "id": number,
            "name": self.name,
            "about": self.about,
            "kind": self.kind,
            "entries": [vars(entry) for entry in self.entries],
            "sides": [_side(side) for side in self.sides],
            "layers": [_layer(place, panel) for place, panel in enumerate(self.panels)],
            "answer": None if self.outputs is None else _answer(self.outputs, self.search),
            "can": {
                "touch": subject is not None,
                "input": list(subject.inputs) if subject else [],
                "importance": subject is not None,
            },
            "inputs": dict(subject.inputs) if subject else {},
            "touched": None
            if self.touched is None
            else {
                "of": self.touched.of,
                "input": dict(self.touched.inputs),
                "changes": [vars(change) for change in self.touched.changes],
            },
        }


def _side(side: Side) -> dict[str, Any]:
    match side:
        case Text():
            return {"kind": "text", "name": side.name, "tokens": side.tokens}
        case Picture():
            return {
                "kind": "image" if side.seconds is None else "sound",
                "name": side.name,
                "grid": side.grid,
                "special": side.special,
                "pixels": side.pixels[0].shape[:2],
                **({} if side.seconds is None else {"seconds": side.seconds}),
            }
    return {"kind": "plain", "name": side.name}


def _layer(number: int, panel: Panel) -> dict[str, Any]:
    name = panel.name or panel.layer.name
    queries, keys = panel.sizes[0]
    return {
        "id": number,
        "name": name,
        "group": name.split(".")[0],
        "heads": panel.heads,
        "sizes": panel.sizes,
        "query_side": panel.query_side,
        "key_side": panel.key_side,
        "cross": panel.cross,
        "offset": 0 if panel.cross else max(keys - queries, 0),
        "form": None,
    }


def _answer(outputs: Sequence[Output], search: Sequence[Sequence[Branch]] | None) -> dict[str, Any]:
    return {
        "outputs": [
            vars(output) | {"steps": None if output.steps is None else [vars(step) for step in output.steps]}
            for output in outputs
        ],
        "search": None if search is None else [[vars(branch) for branch in step] for step in search],
    }
