"""The equation, written out: what everything else is tested against, and what a reader should read first."""

import math
from typing import overload

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import functional_call

from regard.attention.biases import Bias
from regard.attention.call import Call
from regard.attention.masks import Mask
from regard.attention.scores import Score, share
from regard.data.given import instance, vectors
from regard.errors import RegardError


@overload
def weigh(query: Call) -> Tensor: ...


@overload
def weigh(
    query: Tensor,
    key: Tensor,
    mask: Mask | None = None,
    *,
    score: Score | None = None,
    bias: Bias | Tensor | None = None,
    scale: float = 1.0,
) -> Tensor: ...


def weigh(
    query: Call | Float[Tensor, "*batch q dq"],
    key: Float[Tensor, "*kv_batch k dk"] | None = None,
    mask: Mask | None = None,
    *,
    score: Score | None = None,
    bias: Bias | Tensor | None = None,
    scale: float = 1.0,
) -> Float[Tensor, "*batch q k"]:
    """softmax(scale · score(Q, K) + bias): how much each query looks at each key (Vaswani 2017, eq. 1).

    Takes a `Call`, or the query, key and mask of one. A row sums to 1, or to 0 when its query may look at nothing.
    """
    if not isinstance(query, Call):
        if key is None:
            raise RegardError("weigh(query, key, mask) needs a key; weigh(call) takes a Call alone")
        query = Call.of(query, key, mask, score=score, bias=bias, scale=scale)
    return softmax(match(query)).to(query.query.dtype)


def match(call: Call) -> Float[Tensor, "*batch q k"]:
    """scale · score(Q, K) + bias, and −∞ where a query may not look. Of float16 in float32, see `_scores`."""
    call = call.sanitised(call.reach())
    scores = _scores(call) * call.scale
    biases = call.biases()
    if biases is not None:
        scores = scores + biases
    allowed = call.allowed()
    return scores if allowed is None else scores.masked_fill(~allowed, -math.inf)


def _scores(call: Call) -> Float[Tensor, "*batch q k"]:
    """score(Q, K). float16 ends at 65504, which a product passes before it is scaled: there all is made in float32."""
    score = call.score
    if call.query.dtype != torch.float16:
        return score(call.query, call.key)
    weights = {
        name: part.float()
        for name, part in (*score.named_parameters(), *score.named_buffers())
        if part.is_floating_point()
    }
    with torch.autocast(call.query.device.type, enabled=False):
        return functional_call(score, weights, (call.query.float(), call.key.float()))


def softmax(scores: Float[Tensor, "*batch q k"]) -> Float[Tensor, "*batch q k"]:
    """exp(s) / Σ exp(s) over the keys, with 0 in a row that is −∞ everywhere, and no NaN in its gradient."""
    if scores.shape[-1] == 0:
        return scores
    blind = (scores == -math.inf).all(-1, keepdim=True)
    return torch.softmax(scores.masked_fill(blind, 0.0), -1).masked_fill(blind, 0.0)


def lookup(call: Call, value: Float[Tensor, "*batch k dv"]) -> Float[Tensor, "*out q dv"]:
    """Hard attention: the value of the single best key, what soft attention becomes as its scale grows.

    Of equal keys one is taken. A query that may look at nothing gets zeros.
    """
    instance("call", call, Call, "give a Call, Call(query, key, mask)")
    scores, value = match(call), vectors("value", value)
    if value.shape[:-1] != call.key.shape[:-1]:
        raise RegardError(
            f"key {tuple(call.key.shape)} and value {tuple(value.shape)}: each key has one value"
        )
    value = share(value, call.query)
    if scores.shape[-1] == 0:
        return value.new_zeros(*scores.shape[:-1], value.shape[-1])
    best = scores.argmax(-1, keepdim=True)
    found = value.gather(-2, best.expand(*best.shape[:-1], value.shape[-1]))
    return found.masked_fill((scores == -math.inf).all(-1, keepdim=True), 0.0)
