"""Two senses to be explored: what each saw in itself, and what it asked of the other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor

from regard.data.batches import Batch, Both, Sequences
from regard.decoding.decode import evaluating
from regard.errors import RegardError
from regard.models.fusion import Fusion
from regard.runs.answering import Labeller
from regard.runs.inputs import PairReader, TextReader
from regard.sight.explorer.changes import changed
from regard.sight.explorer.exhibit import Change, Entry, Exhibit, Output, Panel, Plain, Side, Text
from regard.sight.explorer.media_views import named, side_of
from regard.sight.explorer.spelling import spelled
from regard.sight.explorer.texts import importance_for_class, likeliest
from regard.sight.layer import Layer
from regard.sight.watch import watch

_FIRST, _SECOND, _QUESTIONS = range(3)
# Whose vectors a module of the model is about: it asks, and it answers unless the module is a cross-attention.
_ASKING = {"first": _FIRST, "second": _SECOND, "first_asks": _FIRST, "second_asks": _SECOND}


@dataclass(frozen=True, kw_only=True, eq=False)
class Fusing:
    """A classifier of pairs, and one pair."""

    labeller: Labeller
    given: tuple[Any, Any]
    about: str = ""

    @property
    def inputs(self) -> dict[str, str]:
        """Pictures and recordings cannot be edited as text."""
        return {}

    def look(self, inputs: Mapping[str, str], changes: Sequence[Change]) -> Exhibit:
        """The likeliest classes, and what each sense looked at in itself and in the other."""
        model, batch = self._model(), self._batch()
        with evaluating(model), changed(model, changes), watch(model) as seen:
            likely = model.predict(batch)[0].exp()
        sides = (
            self._side(model.first, batch.first, 0),
            self._side(model.second, batch.second, 1),
            Plain(name="questions"),
        )
        name = " · ".join(named(each) for each in self.given)
        return Exhibit(
            name=name,
            about=self.about,
            kind="senses",
            sides=sides,
            panels=tuple(_panel(layer) for layer in seen),
            entries=(Entry(name=name),),
            outputs=(Output(classes=likeliest(likely, self.labeller.labels)),),
            subject=self,
        )

    def importance(self, exhibit: Exhibit, panel: Panel) -> Float[Tensor, " heads"]:
        """How much less likely the likeliest class gets without each head."""
        return importance_for_class(self._model(), self._batch(), panel)

    def _side(self, encoder: Any, batch: Batch, which: int) -> Side:
        if not isinstance(batch, Sequences):
            return side_of(encoder, batch, rate=self._model().config.rate)
        reader = self._reader.first if which == 0 else self._reader.second
        if not isinstance(reader, TextReader):
            raise RegardError(f"tokens from a reader of a {reader.what}: a text is wanted")
        return Text(name="text", tokens=(spelled(reader.tokenizer, batch.tokens[0].tolist()),))

    def _batch(self) -> Both[Batch, Batch]:
        return self._reader.batch([self.given]).to(self.labeller.device)

    @property
    def _reader(self) -> PairReader:
        if not isinstance(self.labeller.reader, PairReader):
            raise RegardError(f"this classifier reads one {self.labeller.reader.what}, not two senses")
        return self.labeller.reader

    def _model(self) -> Fusion:
        if not isinstance(self.labeller.model, Fusion):
            raise RegardError(f"a {type(self.labeller.model).__name__} does not take two senses")
        return self.labeller.model


def _panel(layer: Layer) -> Panel:
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
