"""Attention of one step of decoding over cached keys, seen by observers as the same call without a cache."""

from collections.abc import Callable
from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from regard.attention.attend import compute, decode_kernel_fits
from regard.attention.call import Call
from regard.attention.dispatch import dispatch, observed
from regard.attention.kv_cache import BeamCache
from regard.attention.scores import ScaledDot, Score
from regard.attention.static_cache import StaticReach


def attend_beam(
    query: Float[Tensor, "rows h 1 d"], cache: BeamCache, score: Score, *, dropout: float = 0.0
) -> Float[Tensor, "rows h 1 dv"]:
    """What each row takes from its own keys in a cache that several rows share.

    Observers are shown the keys of every row by themselves, as if they had been copied.
    """

    def together() -> Tensor:
        slots, kept, newest = cache.slots, cache.kept, cache.newest
        beside, reach = Call(slots.beside(query), kept.key, None, None, score), slots.reach
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
                        scale=score.factor(query.shape[-1]),
                        newest=(newest.key, newest.value),
                    )
                )
            slots.put(kept, newest)
        return slots.apart(compute(beside, kept.value, reach, dropout=dropout, sanitised=True))

    if not observed():
        return together()
    apart = cache.apart()
    return _observed(Call(query, apart.key, None, None, score), apart.value, together, dropout)


def attend_static(
    call: Call, value: Float[Tensor, "s g k dv"], reach: StaticReach
) -> Float[Tensor, "s h q dv"]:
    """What each query takes from a memory of fixed size. Observers are shown the keys that are there."""

    def whole() -> Tensor:
        return compute(call, value, reach, sanitised=True)

    if not observed():
        return whole()
    there = int(reach.filled.max())
    return _observed(replace(call, key=call.key[..., :there, :]), value[..., :there, :], whole, 0.0)


def _observed(call: Call, value: Tensor, computed: Callable[[], Tensor], dropout: float) -> Tensor:
    """The output of a call as observers see it; `computed` if they leave it as it is."""

    def proceed(asked: Call) -> tuple[Tensor, None]:
        if asked is call:
            return computed(), None
        return compute(asked, value, asked.reach(), dropout=dropout), None

    return dispatch(call, proceed)
