"""A trained captioner or transcriber: a picture or a recording in, text out."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from regard.data.batches import Pairs
from regard.data.given import whole
from regard.data.tokenizer import Tokenizer
from regard.decoding.forced import score
from regard.errors import RegardError
from regard.runs.answering import Answer, answers
from regard.runs.inputs import Picture, Reader, Sound, TextReader, several
from regard.runs.reading import changed
from regard.runs.settings import Decoding

ROWS = 64  # answered together


class Teller:
    """A model with its tokenizer."""

    def __init__(
        self,
        model: nn.Module,  # that `Generates`
        reader: Reader,
        tokenizer: Tokenizer,
        decoding: Decoding | None = None,
    ) -> None:
        self.model: Any = model
        self.reader, self.tokenizer = reader, tokenizer
        self.decoding = decoding or Decoding()

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def hypotheses(self, inputs: Sequence[Any], *, count: int = 1, **changes: Any) -> list[list[Answer]]:
        """The `count` best texts for each input, best first. `beam=5`, `tokens=50` … as in `Decoding`."""
        decoding = changed(self.decoding, changes, where="hypotheses")
        whole("count", count, least=1)
        found = []
        for start in range(0, len(several(inputs, self.reader.what)), ROWS):
            source = self.reader.batch(inputs[start : start + ROWS]).to(self.device)
            found += answers(self.model, source, self.tokenizer, decoding, count=count)
        return found

    def score(self, inputs: Sequence[Any], texts: Sequence[str]) -> list[float]:
        """The log-probability of each text for its input."""
        if len(several(inputs, self.reader.what)) != len(several(texts, "text")):
            raise RegardError(f"{len(inputs)} inputs but {len(texts)} texts")
        scores: list[float] = []
        for start in range(0, len(inputs), ROWS):
            some = slice(start, start + ROWS)
            pairs = Pairs(self.reader.batch(inputs[some]), TextReader(self.tokenizer).batch(texts[some]))
            scores += [each.logprob for each in score(self.model, pairs.to(self.device))]
        return scores


class Describer(Teller):
    """Tells what is in a picture."""

    def caption(self, pictures: Sequence[Picture], **changes: Any) -> list[str]:
        """The best caption of each picture, a file or a tensor."""
        return [best[0].text for best in self.hypotheses(pictures, **changes)]


class Scribe(Teller):
    """Tells what was said."""

    def transcribe(self, recordings: Sequence[Sound], **changes: Any) -> list[str]:
        """What is said in each recording, a file or a tensor."""
        return [best[0].text for best in self.hypotheses(recordings, **changes)]
