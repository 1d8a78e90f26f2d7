"""Questions put to the kernels: as few passes as their answers need."""

import math
from collections.abc import Sequence
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.call import Call
from regard.sight.evidence import Looking, Pooling, Question, Ranking, Receiving, Summing
from regard.sight.kernels import launch
from regard.sight.kernels.terms import terms


def answer(call: Call, questions: Sequence[Question[Any]]) -> list[Question[Any]]:
    """Answer what the kernels know; the questions that are left are for the strips.

    Queries take one pass, which finds the log-sum-exp; keys and a map take a second one. Every further map takes one more.
    """
    looking = [
        q.looking if isinstance(q, Summing) else q for q in questions if isinstance(q, Looking | Summing)
    ]
    receiving = [
        q.receiving if isinstance(q, Summing) else q for q in questions if isinstance(q, Receiving | Summing)
    ]
    ranking = [q for q in questions if isinstance(q, Ranking) and q.count <= launch.MOST]
    pooling = [q for q in questions if isinstance(q, Pooling)]
    answered = {id(q) for q in (*looking, *receiving, *ranking, *pooling)}
    left = [q for q in questions if not isinstance(q, Summing) and id(q) not in answered]
    if not answered:
        return left
    told = terms(call)
    rows = launch.look(told, top=max((q.count for q in ranking), default=0))
    for asked in looking:
        asked.logsumexp, asked.entropy, asked.peak = rows.level * math.log(2), rows.entropy, rows.peak
    for ranked in ranking:
        ranked.keys = rows.keys[..., : ranked.count].contiguous()
        ranked.weights = rows.weights[..., : ranked.count].contiguous()
    received: Tensor | None = None
    for pooled in pooling:
        received, pooled.cells = launch.collect(told, rows.level, (pooled.height, pooled.width))
    for got in receiving:
        if received is None:
            received = launch.collect(told, rows.level)[0]
        got.received = received
    return left


def cut(call: Call, queries: Int[Tensor, " r"], keys: Int[Tensor, " c"]) -> Float[Tensor, "n r c"]:
    """The exact weights of some queries on some keys."""
    return launch.cut(terms(call), queries, keys)
