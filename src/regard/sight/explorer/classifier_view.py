"""A classifier of a text, a picture, a recording or two of them, to be explored: where it looked for its class."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jaxtyping import Float
from torch import Tensor

from regard.data.batches import Both
from regard.runs.answering import Labeller
from regard.runs.inputs import DigitReader, PairReader, TextReader
from regard.sight.explorer.axis_labels import name_of, side_of
from regard.sight.explorer.changed_model import changed, nats_lost
from regard.sight.explorer.example import (
    Change,
    Entry,
    Example,
    ExampleKind,
    Output,
    Panel,
    Picture,
    Plain,
    Side,
)
from regard.sight.layer import Layer
from regard.sight.watch import watch

CLASSES = 10  # shown of the likeliest
_FIRST, _SECOND, _QUESTIONS = range(3)
# By module of a model of two senses: the side of its queries, and of its keys unless it is a cross-attention.
_ASKING = {"first": _FIRST, "second": _SECOND, "first_asks": _FIRST, "second_asks": _SECOND}


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassifierView:
    """A classifier and one input."""

    labeller: Labeller
    given: Any  # a text, the file or tensor of a picture or a recording, or two of these
    about: str = ""

    @property
    def inputs(self) -> dict[str, str]:
        """The text or the digits, alone or of a pair. Pictures and recordings cannot be edited."""
        reader = self.labeller.reader
        if isinstance(reader, PairReader) and isinstance(reader.second, TextReader):
            return {"text": self.given[1]}
        return {"text": self.given} if isinstance(reader, TextReader | DigitReader) else {}

    def look(self, inputs: Mapping[str, str], changes: Sequence[Change]) -> Example:
        """The likeliest classes, and where the model looked for them."""
        text = {**self.inputs, **inputs}.get("text")
        paired = isinstance(self.labeller.reader, PairReader)
        view = self if text is None else replace(self, given=(self.given[0], text) if paired else text)
        model, batch, labels = self.labeller.model, view._batch(), self.labeller.labels
        with changed(model, changes), watch(model) as seen:
            likely = model.predict(batch)[0].exp()
        best, which = likely.topk(min(CLASSES, len(likely)))
        classes = tuple((labels[place], p) for place, p in zip(which.tolist(), best.tolist(), strict=True))
        kind, sides = view._kind_and_sides(batch)
        name = view.given if kind == "classes" else " · ".join(view._names(kind))
        panel = _pair_panel if kind == "senses" else _panel
        return Example(
            name=name or "nothing",
            about=self.about,
            kind=kind,
            sides=(*sides, Plain(name="questions")),
            panels=tuple(panel(layer, sides) for layer in seen),
            entries=(Entry(name=name),),
            outputs=(Output(classes=classes),),
            subject=view,
        )

    def importance(self, example: Example, panel: Panel) -> Float[Tensor, " heads"]:
        """How much less likely the likeliest class gets without each head, in nats."""
        model, batch = self.labeller.model, self._batch()
        with changed(model, ()):
            best = int(model.predict(batch)[0].argmax())
        return nats_lost(model, panel, lambda: float(model.predict(batch)[0, best]))

    def _names(self, kind: ExampleKind) -> list[str]:
        """What each input is called: a file by its name, a text by itself."""
        reader = self.labeller.reader
        if kind != "senses" or not isinstance(reader, PairReader):
            return [name_of(self.given)]
        pair = zip((reader.first, reader.second), self.given, strict=True)
        return [str(each) if isinstance(sense, TextReader) else name_of(each) for sense, each in pair]

    def _batch(self) -> Any:
        return self.labeller.reader.batch([self.given]).to(self.labeller.device)

    def _kind_and_sides(self, batch: Any) -> tuple[ExampleKind, tuple[Side, ...]]:
        model, reader = self.labeller.model, self.labeller.reader
        if isinstance(batch, Both) and isinstance(reader, PairReader):
            first = side_of(model, model.first, reader.first, batch.first)
            return "senses", (first, side_of(model, model.second, reader.second, batch.second))
        side = side_of(model, getattr(model, "encoder", None), reader, batch)
        if not isinstance(side, Picture):
            return "classes", (side,)
        return "image" if side.seconds is None else "sound", (side,)


def _panel(layer: Layer, sides: Sequence[Side]) -> Panel:
    """A layer over one input. The queries of a pooling are not positions of it."""
    queries, keys = layer.shape[-2:]
    asked = queries != sides[0].length(0)
    return Panel(layer=layer, query_side=int(asked), key_side=0, sizes=((queries, keys),), cross=asked)


def _pair_panel(layer: Layer, sides: Sequence[Side]) -> Panel:
    own = _ASKING[layer.name.split(".")[0]]
    crossing, pooling = layer.name.endswith(".cross"), ".pooling" in layer.name
    queries, keys = layer.shape[-2:]
    return Panel(
        layer=layer,
        query_side=_QUESTIONS if pooling else own,
        key_side=1 - own if crossing else own,
        sizes=((queries, keys),),
        cross=crossing or pooling,
    )
