"""Attention, computed well: zero what no query may look at, choose a kernel, zero queries that look at nothing."""

from typing import overload

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.biases import Bias
from regard.attention.call import Call, zero_unseen
from regard.attention.choice import choose
from regard.attention.dispatch import dispatch, observers
from regard.attention.kernels.additive_fused import fused_additive
from regard.attention.kernels.banded import in_blocks
from regard.attention.kernels.fused import fused
from regard.attention.kernels.small_queries import small_queries
from regard.attention.kernels.varlen import in_one_row, in_rows, intervals
from regard.attention.kernels.written import scores_of, written
from regard.attention.masks import Mask
from regard.attention.reach import Reach
from regard.attention.scores import Additive, Score, share
from regard.attention.static_cache import StaticReach
from regard.data.given import probability, vectors
from regard.errors import RegardError


@overload
def attend(query: Call, key: Tensor, *, dropout: float = 0.0) -> Tensor: ...


@overload
def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Mask | None = None,
    *,
    score: Score | None = None,
    bias: Bias | Tensor | None = None,
    scale: float = 1.0,
    dropout: float = 0.0,
) -> Tensor: ...


def attend(
    query: Call | Float[Tensor, "*batch q dq"],
    key: Float[Tensor, "*kv_batch k _d"],
    value: Float[Tensor, "*kv_batch k dv"] | None = None,
    mask: Mask | None = None,
    *,
    score: Score | None = None,
    bias: Bias | Tensor | None = None,
    scale: float = 1.0,
    dropout: float = 0.0,
) -> Float[Tensor, "*_out q _dv"]:
    """softmax(scale · score(Q, K) + bias) V: what each query takes from the keys it looks at.

    `attend(query, key, value, mask)`, or `attend(call, value)`. A query that may look at nothing gets zeros, and
    what no query may look at cannot matter, whatever is in it.
    """
    if isinstance(query, Call):
        call, value = query, key
    elif value is None:
        raise RegardError(
            "attend(query, key, value, mask) needs a value; attend(call, value) takes a Call first"
        )
    else:
        call = Call.of(query, key, mask, score=score, bias=bias, scale=scale)
    if not isinstance(value, Tensor):
        value = vectors("value", value)
    if value.dtype != call.query.dtype or value.device != call.query.device:
        raise RegardError(
            f"value is {value.dtype} on {value.device}, query {call.query.dtype} on {call.query.device}: make them the "
            "same"
        )
    if value.shape[:-1] != call.key.shape[:-1]:
        raise RegardError(
            f"key {tuple(call.key.shape)} and value {tuple(value.shape)}: each key has one value, so all axes but "
            "the last must be equal"
        )
    if type(dropout) is not float or dropout:
        probability("dropout", dropout)
    return attend_within(call, value, call.reach(), dropout=dropout)


def attend_within(
    call: Call, value: Tensor, reach: Reach | None, *, dropout: float = 0.0, sanitised: bool = False
) -> Tensor:
    """`attend`, for a caller that knows what the call can reach and may have zeroed unused positions already."""

    if not observers:
        return compute(call, value, reach, dropout=dropout, sanitised=sanitised)

    def proceed(asked: Call) -> tuple[Tensor, None]:
        if asked is call:
            return compute(call, value, reach, dropout=dropout, sanitised=sanitised), None
        return compute(asked, value, asked.reach(), dropout=dropout), None

    return dispatch(call, proceed)


def compute(
    call: Call, value: Tensor, reach: Reach | None, *, dropout: float = 0.0, sanitised: bool = False
) -> Tensor:
    """The output of a call, without observers."""
    choice = choose(call, reach)
    if reach is not None and choice.kernel == "rows":
        rows = in_rows(call, value, reach)
        parts = [
            compute(row.call, row.value, row.reach, dropout=dropout, sanitised=row.sanitised) for row in rows
        ]
        return in_one_row(parts, call, reach)
    if not sanitised:
        value = value if reach is None else zero_unseen(value, reach.seen())
        call = call.sanitised(reach)
    query, key = call.score.map_query(call.query), call.score.map_key(call.key)
    scale = call.scale * call.score.factor(call.query.shape[-1])
    if reach is not None and choice.kernel == "blocks":
        low, high = (int(limit or 0) for limit in reach.bounded)
        mixed = in_blocks(query, key, value, band=(low, high), real=reach.keys, scale=scale, dropout=dropout)
        return _looked(mixed, reach)
    if choice.kernel == "small queries":
        added = reach.added() if reach is not None and choice.mask == "matrix" else None
        mixed = small_queries(query, key, value, added=added, scale=scale, dropout=dropout)
        return _looked(mixed, reach)
    if isinstance(reach, StaticReach) and choice.kernel == "decode":
        from regard.attention.kernels.decode_attention import decode_attention

        return decode_attention(query, key, value, added=reach.scores, filled=reach.filled, scale=scale)
    if isinstance(reach, StaticReach):
        allowed = None
        bias: Tensor | None = reach.added()
    else:
        allowed = reach.matrix() if reach is not None and choice.mask == "matrix" else None
        bias = call.biases()
    if reach is not None and choice.kernel == "intervals":
        return intervals(query, key, value, reach, scale=scale, dropout=dropout)
    if choice.kernel == "fused additive" and isinstance(call.score, Additive):
        band, rest = ((None, None), None) if reach is None else (reach.bounded, reach.besides_band())
        mixed = fused_additive(
            query,
            key,
            call.score.vector,
            value,
            band=band,
            rest=rest,
            bias=bias,
            scale=scale,
            dropout=dropout,
        )
    elif choice.kernel == "fused":
        triangular = choice.mask == "causal flag"
        mixed = fused(
            query, key, value, bias=bias, allowed=allowed, triangular=triangular, scale=scale, dropout=dropout
        )
    else:
        key, value = share(key, query), share(value, query)
        vector = call.score.vector if isinstance(call.score, Additive) else None
        mixed = written(scores_of(query, key, vector) * scale, value, bias, allowed, dropout)
    return _looked(mixed, reach)


def _looked(mixed: Tensor, reach: Reach | None) -> Tensor:
    """Zeros for queries that may look at nothing."""
    looking = None if reach is None else reach.looking()
    return mixed if looking is None else torch.where(looking[..., None], mixed, 0.0)
