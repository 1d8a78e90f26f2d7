"""Greedy decoding: always the likeliest next token."""

from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.evaluating import check_model
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.limits import Limits
from regard.decoding.probabilities import leading
from regard.decoding.recorded import recorded
from regard.decoding.unrolling import unroll
from regard.models.protocols import AnyModel


def greedy(model: AnyModel, source: Any, *, limits: Limits) -> list[Hypothesis]:
    """A text for every row of the source: at each step argmax p(token | what came before).

    `limits` is the most tokens of a text, END among them: one number, or one a row. Of equally likely tokens the
    one with the smallest number is taken.
    """
    check_model(model)
    found = recorded(model, source, limits=limits)
    return unroll(model, source, likeliest, limits=limits) if found is None else [text for (text,) in found]


def likeliest(
    logits: Float[Tensor, "r vocabulary"], texts: Int[Tensor, " r"], step: int
) -> tuple[Int[Tensor, " r"], Float[Tensor, " r"]]:
    """The likeliest token of every row, and its log-probability."""
    found, tokens = leading(logits, 1, step=step, texts=texts)
    return tokens[:, 0], found[:, 0]
