"""A model that reads all it has written anew at every step.

Slower than the model's own steps, but every attention call is of the whole text so far, so that positions in it are
positions of the text: what a change of single pairs needs.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.data.batches import END, START, Batch, Pairs, Sequences


@dataclass(frozen=True, eq=False)
class UncachedText:
    """Sources and what was written about them, START first."""

    source: Any  # texts, pictures or recordings
    tokens: Int[Tensor, "rows n"]

    @property
    def first(self) -> Int[Tensor, " rows"]:
        """START, for every row."""
        return torch.full((len(self.source),), START, device=self.tokens.device)

    def pick(self, rows: Int[Tensor, " r"]) -> "UncachedText":
        """These rows, in this order."""
        tensors = {name: part[rows] for name, part in vars(self.source).items() if isinstance(part, Tensor)}
        return UncachedText(replace(self.source, **tensors), self.tokens[rows])


class Uncached(nn.Module):
    """A model that generates, over one that gives the logits of whole pairs."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model: Any = model

    def start(self, source: Batch) -> UncachedText:
        """Nothing written yet."""
        device = next(self.model.parameters()).device
        return UncachedText(source, torch.empty(len(source), 0, dtype=torch.long, device=device))

    def step(
        self, tokens: Int[Tensor, " rows"], state: UncachedText
    ) -> tuple[Float[Tensor, "rows vocabulary"], UncachedText]:
        """The logits of what follows these tokens."""
        written = torch.cat([state.tokens, tokens[:, None]], dim=1)
        # The model shifts its target by one itself: START, what was written, and an END that is never read.
        target = torch.cat([written[:, 1:], torch.full_like(written[:, :1], END)], dim=1)
        full = torch.full_like(target[:, 0], target.shape[1])
        logits = self.model.logits(Pairs(state.source, Sequences(target, full)))
        return logits[:, -1], UncachedText(state.source, written)
