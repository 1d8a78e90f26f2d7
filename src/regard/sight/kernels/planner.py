"""Answers questions about a call with as few kernel passes as they need."""

import math
from collections.abc import Sequence
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.call import Call
from regard.sight.evidence import Looking, Pooling, Question, Ranking, Receiving
from regard.sight.kernels import launch
from regard.sight.kernels.kernel_mask import kernel_call


def answer(
    call: Call, questions: Sequence[Question[Any]], level: Float[Tensor, "*batch q"] | None = None
) -> list[Question[Any]]:
    """Answer what kernels can; return the questions that are left for the strips.

    When the log-sum-exp is known, one pass is enough for queries, keys and a map. Otherwise a pass over queries finds
    it, and one over keys follows. A map whose cells are not of whole tiles takes a pass of its own.
    """
    looking = [q for q in questions if isinstance(q, Looking)]
    receiving = [q for q in questions if isinstance(q, Receiving)]
    ranking = [q for q in questions if isinstance(q, Ranking) and q.count <= launch.MAX_TOP]
    pooling = [q for q in questions if isinstance(q, Pooling)]
    answered = {id(q) for q in (*looking, *receiving, *ranking, *pooling)}
    left = [q for q in questions if id(q) not in answered]
    if not answered:
        return left
    problem, count = kernel_call(call), max((q.count for q in ranking), default=0)
    level = None if level is None else level.reshape(problem.entries, -1)
    known = None if level is None else level * math.log2(math.e)
    at_once = known is not None and launch.fits_single_pass(problem, None) and bool(receiving or pooling)
    if known is None or count > launch.FEW or (not at_once and looking):
        rows = launch.look(problem, None if count else known, top=count)
        _rank(ranking, rows)
        known = rows.level if known is None else known
        for asked in looking:
            asked.logsumexp = rows.level * math.log(2) if level is None else level
            asked.entropy, asked.peak = rows.entropy, rows.peak
        looking = []
    elif ranking:
        _rank(ranking, launch.look(problem, known, top=count))
    size = next(
        ((q.height, q.width) for q in pooling if launch.fits_single_pass(problem, (q.height, q.width))), None
    )
    size = size if at_once else None
    received: Tensor | None = None
    for pooled in pooling:
        if (pooled.height, pooled.width) != size:
            received, pooled.cells = launch.collect(problem, known, (pooled.height, pooled.width))
    if level is not None and at_once and (looking or size or received is None):
        found = launch.single_pass(problem, known, size)
        received = found.received
        for asked in looking:
            asked.logsumexp, asked.entropy, asked.peak = level, found.entropy, found.peak
        for pooled in pooling:
            if (pooled.height, pooled.width) == size and found.cells is not None:
                pooled.cells = found.cells
    for got in receiving:
        if received is None:
            received = launch.collect(problem, known)[0]
        got.received = received
    return left


def _rank(ranking: Sequence[Ranking], rows: launch.QueryEvidence) -> None:
    for ranked in ranking:
        ranked.keys = rows.keys[..., : ranked.count].contiguous()
        ranked.weights = rows.weights[..., : ranked.count].contiguous()


def cut(call: Call, queries: Int[Tensor, " r"], keys: Int[Tensor, " c"]) -> Float[Tensor, "n r c"]:
    """The exact weights of some queries on some keys."""
    return launch.cut(kernel_call(call), queries, keys)
