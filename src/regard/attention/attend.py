"""Attention, computed well: zero what no query may look at, choose a kernel (`choose`), zero queries that look at nothing.

`attend_beam` and `attend_static` do so over cached keys, and show observers the same call without a cache.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import overload

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.biases import Bias
from regard.attention.call import Call, shared_seen, zeroed
from regard.attention.choose import Choice, choose, decode_kernel_fits
from regard.attention.dispatch import dispatch, observed, observers
from regard.attention.kernels.additive import scores_of
from regard.attention.kernels.additive_fused import fused_additive
from regard.attention.kernels.torch_kernels import (
    fused,
    in_blocks,
    small_queries,
    written,
)
from regard.attention.kernels.varlen import in_one_row, in_rows, varlen
from regard.attention.kernels.varlen_cpu import varlen_cpu
from regard.attention.kv_cache import BeamCache
from regard.attention.masks import Mask
from regard.attention.reach import Reach
from regard.attention.scores import Additive, ScaledDot, Score, share
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
    query, key = call.query, call.key
    if not isinstance(value, Tensor):
        value = vectors("value", value)
    if value.dtype != query.dtype or value.device != query.device:
        raise RegardError(
            f"value is {value.dtype} on {value.device}, query {query.dtype} on {query.device}: make them the same"
        )
    if value.shape != key.shape and value.shape[:-1] != key.shape[:-1]:
        raise RegardError(
            f"key {tuple(key.shape)} and value {tuple(value.shape)}: each key has one value, so all axes but "
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
    choice = choose(call, reach, dropout=dropout)
    if reach is None:
        return _run(choice, call, call.query, call.key, value, None, dropout)
    if choice.kernel == "rows":
        rows = in_rows(call, value, reach)
        parts = [
            compute(row.call, row.value, row.reach, dropout=dropout, sanitised=row.sanitised) for row in rows
        ]
        return in_one_row(parts, call, reach)
    query, key = call.query, call.key
    if choice.kernel == "varlen":  # no NaN they need not read, zeros where nothing is seen
        if call.score.maps and not sanitised:  # but what maps queries and keys for it reads all of them
            query, key = zeroed(query, reach.looking()), zeroed(key, shared_seen(reach.seen(), key))
        return _run(choice, call, query, key, value, reach, dropout)
    zeroing = choice.kernel == "decode"  # gives zeros to queries that look at nothing by itself
    looking = None if zeroing and sanitised else reach.looking()
    seen = None if sanitised else shared_seen(reach.seen(), key)
    if looking is None and seen is None:
        return _run(choice, call, query, key, value, reach, dropout)
    zero = torch.zeros((), dtype=value.dtype, device=value.device)
    if not sanitised:
        query, key, value = zeroed(query, looking, zero), zeroed(key, seen, zero), zeroed(value, seen, zero)
    mixed = _run(choice, call, query, key, value, reach, dropout)
    return mixed if zeroing else zeroed(mixed, looking, zero)


def _run(
    choice: Choice,
    call: Call,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    reach: Reach | None,
    dropout: float,
) -> Tensor:
    """What the chosen kernel makes of a call with these queries and keys; undefined for a query that looks at nothing."""
    query, key = call.score.map_query(query), call.score.map_key(key)
    scale = call.scale * call.score.factor(call.query.shape[-1])
    if choice.kernel == "small queries":
        added = reach.added() if reach is not None and choice.mask == "matrix" else None
        return small_queries(query, key, value, added=added, scale=scale, dropout=dropout)
    if reach is not None and choice.kernel == "blocks":
        low, high = (int(limit or 0) for limit in reach.bounded)
        return in_blocks(query, key, value, band=(low, high), real=reach.keys, scale=scale, dropout=dropout)
    if choice.kernel == "varlen":
        if query.is_cpu:
            return varlen_cpu(query, key, value, reach, scale=scale)
        if reach is not None:
            return varlen(query, key, value, reach, scale=scale, dropout=dropout)
    if isinstance(reach, StaticReach) and choice.kernel == "decode":
        from regard.attention.kernels.decode_attention import decode_attention

        return decode_attention(query, key, value, added=reach.scores, filled=reach.filled, scale=scale)
    if isinstance(reach, StaticReach):
        allowed = None
        bias: Tensor | None = reach.added()
    else:
        allowed = reach.matrix() if reach is not None and choice.mask == "matrix" else None
        bias = call.biases()
    if choice.kernel == "fused":
        flag = choice.mask == "causal flag"
        learned = call.bias is not None and call.bias.learned
        return fused(
            query,
            key,
            value,
            bias=bias,
            allowed=allowed,
            triangular=flag,
            scale=scale,
            dropout=dropout,
            learned=learned,
        )
    if choice.kernel == "fused additive" and isinstance(call.score, Additive):
        band, rest = ((None, None), None) if reach is None else (reach.bounded, reach.besides_band())
        return fused_additive(
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
    key, value = share(key, query), share(value, query)
    vector = call.score.vector if isinstance(call.score, Additive) else None
    return written(scores_of(query, key, vector) * scale, value, bias, allowed, dropout)


def attend_beam(
    query: Float[Tensor, "rows h 1 d"],
    cache: BeamCache,
    score: Score,
    *,
    scale: float = 1.0,
    dropout: float = 0.0,
) -> Float[Tensor, "rows h 1 dv"]:
    """What each row takes from its own keys in a cache that several rows share.

    Observers are shown the keys of every row by themselves, as if they had been copied.
    """

    def together() -> Tensor:
        slots, kept, newest = cache.slots, cache.kept, cache.newest
        beside, reach = Call(slots.beside(query), kept.key, None, None, score, scale), slots.reach
        if newest is not None and isinstance(reach, StaticReach):
            if isinstance(score, ScaledDot) and decode_kernel_fits(beside):
                from regard.attention.kernels.decode_attention import decode_attention

                return slots.apart(
                    decode_attention(
                        beside.query,
                        kept.key,
                        kept.value,
                        added=reach.scores,
                        filled=reach.filled,
                        scale=scale * score.factor(query.shape[-1]),
                        newest=(newest.key, newest.value),
                    )
                )
            slots.put(kept, newest)
        return slots.apart(compute(beside, kept.value, reach, dropout=dropout, sanitised=True))

    if not observed():
        return together()
    apart = cache.apart()
    return _shown(Call(query, apart.key, None, None, score, scale), apart.value, together, dropout)


def attend_static(
    call: Call, value: Float[Tensor, "s g k dv"], reach: StaticReach
) -> Float[Tensor, "s h q dv"]:
    """What each query takes from a memory of fixed size. Observers are shown the keys that are there."""

    def whole() -> Tensor:
        return compute(call, value, reach, sanitised=True)

    if not observed():
        return whole()
    there = int(reach.filled.max())
    return _shown(replace(call, key=call.key[..., :there, :]), value[..., :there, :], whole, 0.0)


def _shown(call: Call, value: Tensor, computed: Callable[[], Tensor], dropout: float) -> Tensor:
    """The output of a call as observers see it; `computed` if they leave it as it is."""

    def proceed(asked: Call) -> tuple[Tensor, None]:
        if asked is call:
            return computed(), None
        return compute(asked, value, asked.reach(), dropout=dropout), None

    return dispatch(call, proceed)
