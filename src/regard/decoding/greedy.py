"""Greedy decoding: always the likeliest next token."""

from typing import Any

from regard.decoding.decode import decode
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.limits import Limits
from regard.decoding.search import SingleSearch
from regard.models.protocols import AnyModel


def greedy(model: AnyModel, source: Any, *, limits: Limits) -> list[Hypothesis]:
    """A text for every row of the source: at each step argmax p(token | what came before).

    `limits` is the most tokens of a text, END among them: one number, or one a row. Of equally likely tokens the
    one with the smallest number is taken.
    """
    return [text for (text,) in decode(model, source, SingleSearch, limits=limits, key=("greedy",))]
