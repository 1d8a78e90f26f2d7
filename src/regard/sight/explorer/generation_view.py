"""A translator, captioner or transcriber to be explored: its texts side by side, each with its attention.

What was written is read once more, all texts at once, which gives all the attention of the decode.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from jaxtyping import Float
from torch import Tensor

from regard.data.batches import END, START, Pairs, Sequences
from regard.data.tokenizer import Tokenizer
from regard.errors import RegardError
from regard.models.recurrent_writing import RecurrentWriting
from regard.runs.answering import Answer, MediaDescriber, Translator
from regard.runs.inputs import Reader, TextReader
from regard.sight.explorer.axis_labels import log_probability, name_of, side_of, spelled, steps_of
from regard.sight.explorer.beam_tree import Followed
from regard.sight.explorer.changed_model import Uncached, changed, nats_lost
from regard.sight.explorer.example import (
    Branch,
    Change,
    Entry,
    Example,
    ExampleKind,
    Output,
    Panel,
    Picture,
    Text,
)
from regard.sight.layer import Layer
from regard.sight.watch import watch

_SOURCE, _TARGET, _WRITTEN = range(3)
Search = tuple[tuple[Branch, ...], ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class GenerationView:
    """A model that writes, and its input. With a target, that is looked at instead of the model's own texts."""

    loaded: Translator | MediaDescriber
    given: Any  # a text, or the file or tensor of a picture or a recording
    target: str | None = None
    beam: int | None = None  # texts to look at; None: as many as the run keeps
    about: str = ""

    @property
    def inputs(self) -> dict[str, str]:
        """The source, if it is a text, and the target, if one was given."""
        source = {"source": self.given} if isinstance(self.loaded, Translator) else {}
        return source | ({} if self.target is None else {"target": self.target})

    def look(self, inputs: Mapping[str, str], changes: Sequence[Change]) -> Example:
        """Write, and show what was read and written."""
        view = replace(self, given=inputs.get("source", self.given), target=inputs.get("target", self.target))
        return view._example(changes)

    def importance(self, example: Example, panel: Panel) -> Float[Tensor, " heads"]:
        """How much less likely the best text gets without each head, in nats."""
        best, model = self._best(example.changes)[0][0], self.loaded.model
        tokens, batch = [*best.tokens, END], self._batch([best])
        return nats_lost(model, panel, lambda: log_probability(model.logits(batch)[0], tokens))

    @property
    def _reader(self) -> Reader:
        return TextReader(self.loaded.source) if isinstance(self.loaded, Translator) else self.loaded.reader

    @property
    def _tokenizer(self) -> Tokenizer:
        return self.loaded.target if isinstance(self.loaded, Translator) else self.loaded.tokenizer

    def _example(self, changes: Sequence[Change]) -> Example:
        """Source and texts, read at once."""
        model, tokenizer, reader = self.loaded.model, self._tokenizer, self._reader
        best, search = self._best(changes)
        self._check(changes)
        with changed(model, changes), watch(model) as seen:
            logits = model.logits(self._batch(best))
        encoder = getattr(model, "encoder", None)
        source = side_of(model, encoder, reader, reader.batch([self.given]), name="source")
        target = [spelled(tokenizer, [*one.tokens, END]) for one in best]
        written = [spelled(tokenizer, [START, *one.tokens]) for one in best]
        sizes, length = [len(each) for each in target], source.length(0) or 0
        kind: ExampleKind = "translation"
        if isinstance(source, Picture):
            kind = "image" if source.seconds is None else "sound"
            source = replace(source, pixels=source.pixels * len(best))
        elif isinstance(source, Text):
            source = replace(source, tokens=source.tokens * len(best))
        return Example(
            name=self.given if isinstance(self.loaded, Translator) else name_of(self.given),
            about=self.about,
            kind=kind,
            sides=(
                source,
                Text(name="target", tokens=tuple(target)),
                Text(name="written so far", tokens=tuple(written)),
            ),
            panels=tuple(_panel(seen.stitched(name), sizes, length) for name in seen.names),
            entries=tuple(
                Entry(name=one.text, score=one.ranking, logprob=one.log_probability) for one in best
            ),
            outputs=tuple(
                Output(text=one.text, steps=steps_of(tokenizer, row, [*one.tokens, END]))
                for one, row in zip(best, logits, strict=True)
            ),
            search=search,
            subject=self,
        )

    def _best(self, changes: Sequence[Change]) -> tuple[list[Answer], Search | None]:
        """The target, or the model's own best texts, and what each step of the search had to choose from."""
        loaded, tokenizer = self.loaded, self._tokenizer
        if isinstance(loaded, Translator) and not loaded.source.encode(self.given):
            raise RegardError(f"source {self.given!r}: there is no token in it to look at")
        if self.target is not None:
            answer = Answer(self.target, 0.0, 0.0, tokenizer.encode(self.target))
            with changed(loaded.model, changes):
                logits = loaded.model.logits(self._batch([answer]))[0]
            logprob = log_probability(logits, [*answer.tokens, END])
            return [replace(answer, ranking=logprob, log_probability=logprob)], None
        count, model = self.beam or loaded.decoding.beam, loaded.model
        if any(change.kind == "forbid" for change in changes) and not isinstance(model, RecurrentWriting):
            model = Uncached(model)
        asked = copy(loaded)
        asked.model = Followed(model, max(count, loaded.decoding.beam))
        with changed(loaded.model, changes):
            answers = asked.hypotheses([self.given], count=count)[0]
        return answers, asked.model.branches(tokenizer, answers)

    def _batch(self, best: Sequence[Answer]) -> Pairs[Any]:
        """What was read beside each text."""
        targets = Sequences.of([[*one.tokens, END] for one in best])
        return Pairs(self._reader.batch([self.given] * len(best)), targets).to(self.loaded.device)

    def _check(self, changes: Sequence[Change]) -> None:
        model = self.loaded.model
        if not isinstance(model, RecurrentWriting):
            return
        if model.attention is None:
            raise RegardError("this recurrent model has attention: none, so there is nothing to look at")
        if any(change.kind == "forbid" and change.queries is not None for change in changes):
            raise RegardError("a recurrent decoder asks one query at a time: forbid keys for all queries")


def _panel(layer: Layer, targets: Sequence[int], source: int) -> Panel:
    """The name of a module says what asks what: the encoder itself, the decoder itself, or the decoder the encoder."""
    if layer.name.startswith("encoder"):
        sizes = ((source, source),) * len(targets)
        return Panel(layer=layer, query_side=_SOURCE, key_side=_SOURCE, sizes=sizes)
    if layer.name.endswith(".cross") or layer.name == "attention":
        sizes = tuple((target, source) for target in targets)
        return Panel(layer=layer, query_side=_TARGET, key_side=_SOURCE, sizes=sizes, cross=True)
    sizes = tuple((target, target) for target in targets)
    return Panel(layer=layer, query_side=_WRITTEN, key_side=_WRITTEN, sizes=sizes)
