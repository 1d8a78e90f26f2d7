"""Questions put to the kernels: as few passes as their answers need."""

import math
from collections.abc import Sequence
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.call import Call
from regard.sight.evidence import Looking, Pooling, Question, Ranking, Receiving, Summing
from regard.sight.kernels import launch
from regard.sight.kernels.terms import Terms, terms


def answer(
    call: Call, questions: Sequence[Question[Any]], level: Float[Tensor, "*batch q"] | None = None
) -> list[Question[Any]]:
    """Answer what the kernels know; the questions that are left are for the strips.

    One pass is enough when the log-sum-exp is known and cells are of whole tiles. Otherwise queries take one pass,
    which finds it, keys and a map take a second one, and every further map one more.
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
    level = None if level is None else level.reshape(told.entries, -1)
    known = None if level is None else level * math.log2(math.e)
    if known is not None and not ranking and _once(told, known, looking, receiving, pooling):
        for asked in looking:
            asked.logsumexp = level
        return left
    if known is None or looking or ranking:
        rows = launch.look(told, top=max((q.count for q in ranking), default=0))
        known = rows.level
        for asked in looking:
            asked.logsumexp, asked.entropy, asked.peak = known * math.log(2), rows.entropy, rows.peak
        for ranked in ranking:
            ranked.keys = rows.keys[..., : ranked.count].contiguous()
            ranked.weights = rows.weights[..., : ranked.count].contiguous()
    received: Tensor | None = None
    for pooled in pooling:
        received, pooled.cells = launch.collect(told, known, (pooled.height, pooled.width))
    for got in receiving:
        if received is None:
            received = launch.collect(told, known)[0]
        got.received = received
    return left


def _once(
    told: Terms, level: Tensor, looking: list[Looking], receiving: list[Receiving], pooling: list[Pooling]
) -> bool:
    """Answer in one pass, if that can be done; False if it cannot."""
    size = (pooling[0].height, pooling[0].width) if pooling else None
    if len(pooling) > 1 or not launch.fits_once(told, size):
        return False
    found = launch.once(told, level, size, received=bool(receiving))
    for asked in looking:
        asked.entropy, asked.peak = found.entropy, found.peak
    for got in receiving:
        got.received = found.received
    for pooled in pooling:
        pooled.cells = found.cells
    return True


def cut(call: Call, queries: Int[Tensor, " r"], keys: Int[Tensor, " c"]) -> Float[Tensor, "n r c"]:
    """The exact weights of some queries on some keys."""
    return launch.cut(terms(call), queries, keys)
