"""A trained language model: it continues text."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from regard.data.batches import START, Sequences
from regard.data.given import instance, texts_of
from regard.data.tokenizer import Tokenizer
from regard.decoding.forced import score
from regard.decoding.sampling import sample
from regard.decoding.streaming import stream
from regard.models.language import LanguageModel
from regard.runs.reading import changed
from regard.runs.settings import Decoding


class Writer:
    """A model with its tokenizer."""

    def __init__(
        self,
        model: LanguageModel,
        tokenizers: dict[str, Tokenizer],
        decoding: Decoding | None = None,
        *,
        lines: bool = False,  # trained on one text a line, each begun by START, rather than on a stream
    ) -> None:
        self.model = model
        self.tokenizer = tokenizers["source"]
        self.decoding = decoding or Decoding()
        self.lines = lines

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def generate(self, prompts: Sequence[str], *, seed: int = 0, **changes: Any) -> list[str]:
        """What follows each prompt. `tokens=200`, `temperature=0.8`, `top_k=20`, `top_p=0.9` as in `Decoding`."""
        settings = changed(self.decoding, changes, where="generate")
        found = sample(
            self.model,
            self.prompts(prompts),
            limits=settings.tokens,
            seed=seed,
            temperature=settings.temperature,
            top_k=settings.top_k or None,
            top_p=settings.top_p,
        )
        return [self.tokenizer.decode(one.tokens) for one in found]

    def stream(self, prompt: str, *, seed: int = 0, **changes: Any) -> Iterator[str]:
        """What follows a prompt, piece by piece as it is drawn; a letter of several bytes comes when it is whole."""
        settings = changed(self.decoding, changes, where="generate")
        instance("prompt", prompt, str, "give one text")
        tokens: list[int] = []
        said = ""
        for token in stream(
            self.model,
            self.prompts([prompt]),
            limits=settings.tokens,
            seed=seed,
            temperature=settings.temperature,
            top_k=settings.top_k or None,
            top_p=settings.top_p,
        ):
            tokens.append(token)
            text = self.tokenizer.decode(tokens)
            if text.endswith("�"):
                continue
            if len(text) > len(said):
                yield text[len(said) :]
                said = text

    def score(self, texts: Sequence[str]) -> list[float]:
        """The log-probability of each text, given what texts of training begin with."""
        return [each.logprob for each in score(self.model, self.prompts(texts))]

    def prompts(self, prompts: Sequence[str]) -> Sequences:
        """Prompts as tokens, begun as the texts of training were: by START, or in a stream by a line break."""
        rows = self.tokenizer.encode_all(texts_of(prompts))
        opening = [START] if self.lines else self.tokenizer.encode("\n") or [START]
        return Sequences.of([[*opening, *ids] for ids in rows]).to(self.device)
