"""Forced decoding: how likely a model finds a text that is given."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from regard.data.batches import Pairs, Sequences
from regard.data.given import instance
from regard.decoding.decode import evaluating
from regard.decoding.search import normalised
from regard.errors import RegardError


@runtime_checkable
class Predicts(Protocol):
    """What gives the logits of a whole text at once."""

    def logits(self, batch: Any) -> Float[Tensor, "b t vocabulary"]:
        """Of pairs: of each token of the target, given those before it. Of sequences: of what follows each token."""


@dataclass(frozen=True, kw_only=True)
class Likelihood:
    """How likely a text is."""

    log_probability: float  # log p(text | source), END included where the text has it
    tokens: list[float]  # the log-probability of each token; their sum is that of the text


def log_probabilities(model: Predicts, batch: Pairs[Any] | Sequences) -> list[Likelihood]:
    """log p of every target given its source; or of every sequence given its first token, which nothing precedes."""
    instance("model", model, Predicts, "give a model that has `logits`")
    instance("batch", batch, (Pairs, Sequences), "give Pairs(source, target), or Sequences")
    with evaluating(model):
        logits = model.logits(batch)
        if isinstance(batch, Pairs):
            texts = batch.target
        else:
            logits = logits[:, :-1]
            texts = Sequences(batch.tokens[:, 1:], (batch.lengths - 1).clamp_min(0))
        logprobs = normalised(logits)
        known = texts.tokens.clamp(0, logprobs.shape[-1] - 1)
        each = logprobs.gather(-1, known[..., None])[..., 0].where(known == texts.tokens, torch.nan)
    unusable = (each.isnan() & texts.real()).nonzero().tolist()
    if unusable:
        row, step = unusable[0]
        token, words = int(texts.tokens[row, step]), logprobs.shape[-1]
        if not 0 <= token < words:
            raise RegardError(
                f"row {row} has the token {token}: the model knows {words:,}, from 0 to {words - 1:,}"
            )
        raise RegardError(f"step {step}, row {row}: the model gave NaN; look at its weights and at that row")
    rows = zip(each.tolist(), texts.lengths.tolist(), strict=True)
    return [Likelihood(log_probability=sum(row[:length]), tokens=row[:length]) for row, length in rows]
