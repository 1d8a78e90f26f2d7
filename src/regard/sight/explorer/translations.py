"""A translation to be explored: the hypotheses of the beam side by side, each with its attention."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from jaxtyping import Float
from torch import Tensor

from regard.data.batches import END, START, Pairs, Sequences
from regard.decoding.evaluating import evaluating
from regard.errors import RegardError
from regard.models.recurrent import RecurrentTranslator
from regard.runs.translator import Translation, Translator
from regard.sight.explorer.changes import changed
from regard.sight.explorer.exhibit import Change, Entry, Exhibit, Output, Panel, Text
from regard.sight.explorer.spelling import spelled
from regard.sight.explorer.steps import log_probability, steps_of
from regard.sight.explorer.uncached import Uncached
from regard.sight.interventions import importance
from regard.sight.layer import Layer
from regard.sight.watch import watch

_SOURCE, _TARGET, _WRITTEN = range(3)


@dataclass(frozen=True, kw_only=True, eq=False)
class Translating:
    """A translator and a text. With a target, that is what is looked at instead of the translator's own."""

    translator: Translator
    source: str
    target: str | None = None
    beam: int | None = None  # hypotheses to look at; None: as many as the run keeps
    about: str = ""

    @property
    def inputs(self) -> dict[str, str]:
        """The source, and the target where one was given."""
        return {"source": self.source} | ({} if self.target is None else {"target": self.target})

    def look(self, inputs: Mapping[str, str], changes: Sequence[Change]) -> Exhibit:
        """Translate, then read source and translations at once, which gives all the attention of the decode."""
        given = replace(
            self, source=inputs.get("source", self.source), target=inputs.get("target", self.target)
        )
        return given._looked(changes)

    def importance(self, exhibit: Exhibit, panel: Panel) -> Float[Tensor, " heads"]:
        """How much less likely the best translation gets without each head."""
        best = self._hypotheses(exhibit.touched.changes if exhibit.touched else ())[0]
        tokens = [*best.tokens, END]
        batch = self._batch([best])

        def metric() -> float:
            with evaluating(self.translator.model):
                return log_probability(self.translator.model.logits(batch)[0], tokens)

        found = importance(self.translator.model, {panel.layer.name: panel.heads}, metric)
        return -found.change[panel.layer.name]

    def _looked(self, changes: Sequence[Change]) -> Exhibit:
        translator, model = self.translator, self.translator.model
        if isinstance(model, RecurrentTranslator):
            if model.attention is None:
                raise RegardError(
                    "this recurrent translator has attention: none, so there is nothing to look at"
                )
            if any(change.kind == "forbid" and change.queries is not None for change in changes):
                raise RegardError("a recurrent decoder asks one query at a time: forbid keys for all queries")
        best = self._hypotheses(changes)
        batch = self._batch(best)
        with evaluating(model), changed(model, changes), watch(model) as seen:
            logits = model.logits(batch)
        source = spelled(translator.source, [*translator.source.encode(self.source), END])
        target = [spelled(translator.target, [*one.tokens, END]) for one in best]
        written = [spelled(translator.target, [START, *one.tokens]) for one in best]
        sides = (
            Text(name="source", tokens=(source,) * len(best)),
            Text(name="target", tokens=tuple(target)),
            Text(name="written so far", tokens=tuple(written)),
        )
        layers = [seen.stitched(name) for name in seen.names]
        return Exhibit(
            name=self.source,
            about=self.about,
            kind="translation",
            sides=sides,
            panels=tuple(_panel(layer, [len(each) for each in target], len(source)) for layer in layers),
            entries=tuple(Entry(name=one.text, score=one.score, logprob=one.logprob) for one in best),
            outputs=tuple(
                Output(text=one.text, steps=steps_of(translator.target, row, [*one.tokens, END]))
                for one, row in zip(best, logits, strict=True)
            ),
            subject=self,
        )

    def _hypotheses(self, changes: Sequence[Change]) -> list[Translation]:
        translator, model = self.translator, self.translator.model
        if not translator.source.encode(self.source):
            raise RegardError(f"source {self.source!r}: there is no token in it to look at")
        if self.target is not None:
            tokens = translator.target.encode(self.target)
            with evaluating(model), changed(model, changes):
                batch = translator.pairs([self.source], [self.target])
                logprob = log_probability(model.logits(batch)[0], [*tokens, END])
            return [Translation(self.target, logprob, logprob, tokens)]
        decoding = translator.decoding
        asked = translator
        if any(change.kind == "forbid" for change in changes) and not isinstance(model, RecurrentTranslator):
            tokenizers = {"source": translator.source, "target": translator.target}
            asked = Translator(Uncached(model), tokenizers, decoding)
        with evaluating(model), changed(model, changes):
            return asked.hypotheses([self.source], count=self.beam or decoding.beam)[0]

    def _batch(self, best: Sequence[Translation]) -> Pairs[Sequences]:
        source = Sequences.of([[*self.translator.source.encode(self.source), END]] * len(best))
        return Pairs(source, Sequences.of([[*one.tokens, END] for one in best])).to(self.translator.device)


def _panel(layer: Layer, targets: Sequence[int], source: int) -> Panel:
    """Who asks whom is in the name of a module: the encoder itself, the decoder itself, or the decoder the encoder."""
    if layer.name.startswith("encoder"):
        return Panel(
            layer=layer, query_side=_SOURCE, key_side=_SOURCE, sizes=((source, source),) * len(targets)
        )
    if layer.name.endswith(".cross") or layer.name == "attention":
        sizes = tuple((target, source) for target in targets)
        return Panel(layer=layer, query_side=_TARGET, key_side=_SOURCE, sizes=sizes, cross=True)
    sizes = tuple((target, target) for target in targets)
    return Panel(layer=layer, query_side=_WRITTEN, key_side=_WRITTEN, sizes=sizes)
