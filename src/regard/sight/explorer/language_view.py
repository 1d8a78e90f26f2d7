"""A text to be explored as a language model reads it and goes on from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from jaxtyping import Float
from torch import Tensor

from regard.data.batches import Sequences
from regard.decoding.sampling import sample
from regard.errors import RegardError
from regard.runs.answering import TextGenerator
from regard.sight.explorer.axis_labels import log_probability, spelled, steps_of
from regard.sight.explorer.changed_model import changed, nats_lost
from regard.sight.explorer.example import Change, Entry, Example, Output, Panel, Text
from regard.sight.watch import watch


@dataclass(frozen=True, kw_only=True, eq=False)
class LanguageView:
    """A language model and a text; `more` tokens are added, each the likeliest."""

    generator: TextGenerator
    text: str
    more: int = 0
    about: str = ""

    @property
    def inputs(self) -> dict[str, str]:
        """The text."""
        return {"text": self.text}

    def look(self, inputs: Mapping[str, str], changes: Sequence[Change]) -> Example:
        """Every token of the text, and how likely it was after those before it."""
        view = replace(self, text=inputs.get("text", self.text))
        tokens, model, tokenizer = view._tokens(changes), self.generator.model, self.generator.tokenizer
        with changed(model, changes), watch(model) as seen:
            logits = model.logits(Sequences.of([tokens]).to(self.generator.device))[0]
        following, sizes = [*tokens[1:], int(logits[-1].argmax())], ((len(tokens), len(tokens)),)
        return Example(
            name=view.text or "nothing",
            about=self.about,
            kind="language",
            sides=(Text(name="text", tokens=(spelled(tokenizer, tokens),)),),
            panels=tuple(Panel(layer=layer, query_side=0, key_side=0, sizes=sizes) for layer in seen),
            entries=(Entry(name=view.text, logprob=log_probability(logits, tokens[1:])),),
            outputs=(Output(text=tokenizer.decode(following), steps=steps_of(tokenizer, logits, following)),),
            subject=view,
        )

    def importance(self, example: Example, panel: Panel) -> Float[Tensor, " heads"]:
        """How much less likely the text gets without each head, in nats."""
        model, tokens = self.generator.model, self._tokens(example.changes)
        batch = Sequences.of([tokens]).to(self.generator.device)
        return nats_lost(model, panel, lambda: log_probability(model.logits(batch)[0], tokens[1:]))

    def _tokens(self, changes: Sequence[Change]) -> list[int]:
        prompt = self.generator.prompts([self.text])
        tokens: list[int] = prompt.tokens[0].tolist()
        if not self.more:
            return tokens
        if any(change.kind == "forbid" for change in changes):
            raise RegardError(
                "single pairs cannot be forbidden while a text is being continued: ask for no more tokens"
            )
        with changed(self.generator.model, changes):
            found = sample(self.generator.model, prompt, limits=self.more, seed=0, temperature=0.0)
        return [*tokens, *found[0].tokens]
