"""What a model wrote, to be explored: its texts side by side, each with the attention of its decoding.

Whatever was read, a text, a picture or a recording, all of what was written is read once more at once, which gives all
the attention of the decode.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor

from regard.data.batches import END, START, Batch, Pairs, Sequences
from regard.data.tokenizer import Tokenizer
from regard.decoding.decode import evaluating
from regard.errors import RegardError
from regard.models.recurrent_writing import RecurrentWriting
from regard.runs.answering import Answer
from regard.sight.explorer.beam_tree import Followed
from regard.sight.explorer.changes import changed
from regard.sight.explorer.exhibit import (
    Branch,
    Change,
    Entry,
    Exhibit,
    Kind,
    Output,
    Panel,
    Side,
    Subject,
    Text,
)
from regard.sight.explorer.spelling import spelled
from regard.sight.explorer.steps import log_probability, steps_of
from regard.sight.explorer.uncached import Uncached
from regard.sight.interventions import importance
from regard.sight.layer import Layer
from regard.sight.watch import watch

_SOURCE, _TARGET, _WRITTEN = range(3)
Asked = Callable[[Any], list[Answer]]  # a model's best answers, best first


@dataclass(frozen=True)
class Best:
    """PageAnswers, best first, and what the search for them had to choose from, step by step."""

    answers: list[Answer]
    search: tuple[tuple[Branch, ...], ...] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class WrittenView:
    """A model that writes, what it read, and how what it writes is spelled."""

    model: Any
    tokenizer: Tokenizer
    source: Callable[[int], Batch]  # what was read, so many times over

    def forced(self, text: str, changes: Sequence[Change]) -> "Best":
        """A given text, with how likely the model finds it."""
        tokens = self.tokenizer.encode(text)
        answer = Answer(text, 0.0, 0.0, tokens)
        with evaluating(self.model), changed(self.model, changes):
            logprob = log_probability(self.model.logits(self.batch([answer]))[0], [*tokens, END])
        return Best([Answer(text, logprob, logprob, tokens)])

    def answered(self, asked: Asked, changes: Sequence[Change], *, size: int) -> "Best":
        """The model's own best answers under some changes, by a beam of this size."""
        model = self.model
        if any(change.kind == "forbid" for change in changes) and not isinstance(model, RecurrentWriting):
            model = Uncached(model)
        followed = Followed(model, size)
        with evaluating(self.model), changed(self.model, changes):
            answers = asked(followed)
        return Best(answers, followed.branches(self.tokenizer, answers))

    def exhibit(
        self,
        found: "Best",
        changes: Sequence[Change],
        *,
        side: Callable[[int], Side],  # what was read, of so many entries
        subject: Subject,
        name: str,
        about: str,
        kind: Kind,
    ) -> Exhibit:
        """Source and answers read at once."""
        self._check(changes)
        best = found.answers
        batch = self.batch(best)
        with evaluating(self.model), changed(self.model, changes), watch(self.model) as seen:
            logits = self.model.logits(batch)
        target = [spelled(self.tokenizer, [*one.tokens, END]) for one in best]
        written = [spelled(self.tokenizer, [START, *one.tokens]) for one in best]
        layers, first = [seen.stitched(each) for each in seen.names], side(len(best))
        length = first.length(0) or 0
        return Exhibit(
            name=name,
            about=about,
            kind=kind,
            sides=(
                first,
                Text(name="target", tokens=tuple(target)),
                Text(name="written so far", tokens=tuple(written)),
            ),
            panels=tuple(_panel(layer, [len(each) for each in target], length) for layer in layers),
            entries=tuple(
                Entry(name=one.text, score=one.ranking, logprob=one.log_probability) for one in best
            ),
            outputs=tuple(
                Output(text=one.text, steps=steps_of(self.tokenizer, row, [*one.tokens, END]))
                for one, row in zip(best, logits, strict=True)
            ),
            search=found.search,
            subject=subject,
        )

    def importance(self, best: Answer, panel: Panel) -> Float[Tensor, " heads"]:
        """How much less likely an answer gets without each head."""
        tokens, batch = [*best.tokens, END], self.batch([best])

        def metric() -> float:
            with evaluating(self.model):
                return log_probability(self.model.logits(batch)[0], tokens)

        return -importance(self.model, {panel.layer.name: panel.heads}, metric).change[panel.layer.name]

    def batch(self, best: Sequence[Answer]) -> Pairs[Any]:
        """What was read beside each answer."""
        device = next(self.model.parameters()).device
        targets = Sequences.of([[*one.tokens, END] for one in best])
        return Pairs(self.source(len(best)), targets).to(device)

    def _check(self, changes: Sequence[Change]) -> None:
        if not isinstance(self.model, RecurrentWriting):
            return
        if self.model.attention is None:
            raise RegardError("this recurrent model has attention: none, so there is nothing to look at")
        if any(change.kind == "forbid" and change.queries is not None for change in changes):
            raise RegardError("a recurrent decoder asks one query at a time: forbid keys for all queries")


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
