"""A hypothesis: one text that a decoder arrived at, and how likely the model finds it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor

from regard.errors import RegardError


@dataclass(frozen=True, kw_only=True)
class Hypothesis:
    """A decoded text.

    `rows[t]` is the row of the batch that the text came from at step t, which is how its attention is found
    again among the steps of all (`beams`).
    """

    tokens: list[int]  # without END
    log_probability: float  # log p(tokens, END | source), or of the tokens alone where no END was reached
    ranking: float  # what hypotheses are ranked by: the log-probability, divided by the length penalty if there is one
    finished: bool  # END was reached
    rows: list[int]  # one a step, the step that gave END among them


@runtime_checkable
class HasRows(Protocol):
    """A hypothesis, or the answer that was made of it."""

    @property
    def rows(self) -> list[int]:
        """The row of the batch at each step."""


def beams(hypotheses: Sequence[HasRows], *, steps: int | None = None) -> Int[Tensor, "texts steps"]:
    """The rows of some hypotheses of one decode, −1 after their ends: for `seen.stitched(name, beams=…)`.

    `steps` is how many the decode made, if more than the longest of these has.
    """
    if not hypotheses:
        raise RegardError("the beams of no hypothesis: give at least one")
    longest = max(len(each.rows) for each in hypotheses) if steps is None else steps
    return torch.tensor([[*each.rows, *[-1] * (longest - len(each.rows))] for each in hypotheses])
