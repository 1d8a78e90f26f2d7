"""A text to be explored: as a language model goes on from it, or as a classifier sorts it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jaxtyping import Float
from torch import Tensor

from regard.data.batches import Sequences
from regard.data.tokenizer import Tokenizer
from regard.decoding.decode import evaluating
from regard.decoding.sampling import sample
from regard.errors import RegardError
from regard.models.labelling import Labelling
from regard.runs.answering import Labeller, TextGenerator
from regard.runs.inputs import TextReader
from regard.sight.explorer.changes import changed
from regard.sight.explorer.exhibit import Change, Entry, Exhibit, Output, Panel, Plain, Text
from regard.sight.explorer.spelling import spelled
from regard.sight.explorer.steps import log_probability, steps_of
from regard.sight.interventions import importance
from regard.sight.layer import Layer
from regard.sight.watch import watch

CLASSES = 10  # shown of the likeliest


@dataclass(frozen=True, kw_only=True, eq=False)
class Continuing:
    """A language model and a text; `more` tokens are added, each the likeliest."""

    generator: TextGenerator
    text: str
    more: int = 0
    about: str = ""

    @property
    def inputs(self) -> dict[str, str]:
        """The text."""
        return {"text": self.text}

    def look(self, inputs: Mapping[str, str], changes: Sequence[Change]) -> Exhibit:
        """Every token of the text, and how likely it was after those before it."""
        given = replace(self, text=inputs.get("text", self.text))
        tokens = given._tokens(changes)
        model, tokenizer = self.generator.model, self.generator.tokenizer
        with evaluating(model), changed(model, changes), watch(model) as seen:
            logits = model.logits(Sequences.of([tokens]).to(self.generator.device))[0]
        following = [*tokens[1:], int(logits[-1].argmax())]
        steps = steps_of(tokenizer, logits, following)
        return Exhibit(
            name=given.text or "nothing",
            about=self.about,
            kind="language",
            sides=(Text(name="text", tokens=(spelled(tokenizer, tokens),)),),
            panels=tuple(_along(layer, len(tokens)) for layer in seen),
            entries=(Entry(name=given.text, logprob=log_probability(logits, tokens[1:])),),
            outputs=(Output(text=tokenizer.decode(following), steps=steps),),
            subject=given,
        )

    def importance(self, exhibit: Exhibit, panel: Panel) -> Float[Tensor, " heads"]:
        """How much less likely the text gets without each head."""
        tokens = self._tokens(exhibit.touched.changes if exhibit.touched else ())
        batch = Sequences.of([tokens]).to(self.generator.device)

        def metric() -> float:
            with evaluating(self.generator.model):
                return log_probability(self.generator.model.logits(batch)[0], tokens[1:])

        return -importance(self.generator.model, {panel.layer.name: panel.heads}, metric).change[
            panel.layer.name
        ]

    def _tokens(self, changes: Sequence[Change]) -> list[int]:
        prompt = self.generator.prompts([self.text])
        tokens: list[int] = prompt.tokens[0].tolist()
        if not self.more:
            return tokens
        if any(change.kind == "forbid" for change in changes):
            raise RegardError(
                "single pairs cannot be forbidden while a text is being continued: ask for no more tokens"
            )
        with evaluating(self.generator.model), changed(self.generator.model, changes):
            found = sample(self.generator.model, prompt, limits=self.more, seed=0, temperature=0.0)
        return [*tokens, *found[0].tokens]


@dataclass(frozen=True, kw_only=True, eq=False)
class Sorting:
    """A classifier and a text."""

    labeller: Labeller
    text: str
    about: str = ""

    @property
    def inputs(self) -> dict[str, str]:
        """The text."""
        return {"text": self.text}

    def look(self, inputs: Mapping[str, str], changes: Sequence[Change]) -> Exhibit:
        """The likeliest classes, and where the model looked for them."""
        given = replace(self, text=inputs.get("text", self.text))
        batch, model = given._batch(), self.labeller.model
        with evaluating(model), changed(model, changes), watch(model) as seen:
            likely = model.predict(batch)[0].exp()
        tokens = spelled(self._tokenizer, batch.tokens[0].tolist())
        return Exhibit(
            name=given.text or "nothing",
            about=self.about,
            kind="classes",
            sides=(Text(name="text", tokens=(tokens,)), Plain(name="questions")),
            panels=tuple(_along(layer, len(tokens)) for layer in seen),
            entries=(Entry(name=given.text),),
            outputs=(Output(classes=likeliest(likely, self.labeller.labels)),),
            subject=given,
        )

    def importance(self, exhibit: Exhibit, panel: Panel) -> Float[Tensor, " heads"]:
        """How much less likely the likeliest class gets without each head."""
        return importance_for_class(self.labeller.model, self._batch(), panel)

    def _batch(self) -> Sequences:
        return TextReader(self._tokenizer).batch([self.text]).to(self.labeller.device)

    @property
    def _tokenizer(self) -> Tokenizer:
        if not isinstance(self.labeller.reader, TextReader):
            raise RegardError(f"this classifier reads a {self.labeller.reader.what}, not a text")
        return self.labeller.reader.tokenizer


def importance_for_class(model: Labelling[Any], batch: Any, panel: Panel) -> Float[Tensor, " heads"]:
    """How much less likely the likeliest class of the first input gets without each head, in nats."""
    with evaluating(model):
        best = int(model.predict(batch)[0].argmax())

    def metric() -> float:
        with evaluating(model):
            return float(model.predict(batch)[0, best])

    return -importance(model, {panel.layer.name: panel.heads}, metric).change[panel.layer.name]


def likeliest(likely: Float[Tensor, " classes"], labels: Sequence[str]) -> tuple[tuple[str, float], ...]:
    """The likeliest classes, best first."""
    best, which = likely.topk(min(CLASSES, len(likely)))
    return tuple((labels[place], share) for place, share in zip(which.tolist(), best.tolist(), strict=True))


def _along(layer: Layer, tokens: int) -> Panel:
    """A layer over a text; questions of a pooling are not positions of it."""
    queries = layer.shape[-2]
    asked = queries != tokens
    return Panel(
        layer=layer, query_side=1 if asked else 0, key_side=0, sizes=((queries, tokens),), cross=asked
    )
