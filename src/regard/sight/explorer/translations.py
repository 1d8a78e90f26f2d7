"""A translation to be explored: the hypotheses of the beam side by side, each with its attention."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jaxtyping import Float
from torch import Tensor

from regard.data.batches import END, Sequences
from regard.errors import RegardError
from regard.runs.answering import Answer, Translator
from regard.sight.explorer.exhibit import Change, Exhibit, Panel, Text
from regard.sight.explorer.spelling import spelled
from regard.sight.explorer.written_view import Best, WrittenView


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
        """Translate, and show source and translations."""
        given = replace(
            self, source=inputs.get("source", self.source), target=inputs.get("target", self.target)
        )
        tokens = spelled(self.translator.source, given._tokens())
        return given._written().exhibit(
            given._best(changes),
            changes,
            side=lambda count: Text(name="source", tokens=(tokens,) * count),
            subject=given,
            name=given.source,
            about=self.about,
            kind="translation",
        )

    def importance(self, exhibit: Exhibit, panel: Panel) -> Float[Tensor, " heads"]:
        """How much less likely the best translation gets without each head."""
        best = self._best(exhibit.touched.changes if exhibit.touched else ()).answers[0]
        return self._written().importance(best, panel)

    def _best(self, changes: Sequence[Change]) -> Best:
        if len(self._tokens()) == 1:
            raise RegardError(f"source {self.source!r}: there is no token in it to look at")
        if self.target is not None:
            return self._written().forced(self.target, changes)
        translator = self.translator
        count = self.beam or translator.decoding.beam

        def asked(model: Any) -> list[Answer]:
            tokenizers = {"source": translator.source, "target": translator.target}
            asking = Translator(model, tokenizers, translator.decoding)
            return asking.hypotheses([self.source], count=count)[0]

        return self._written().answered(asked, changes, size=max(count, translator.decoding.beam))

    def _tokens(self) -> list[int]:
        return [*self.translator.source.encode(self.source), END]

    def _written(self) -> WrittenView:
        return WrittenView(
            model=self.translator.model,
            tokenizer=self.translator.target,
            source=lambda count: Sequences.of([self._tokens()] * count),
        )
