"""Attention of one query a head over the first keys of a KV cache, as a Triton kernel: a step of greedy decoding.

A head of a source is one program. Nothing is multiplied by tensor cores: one row would leave them nearly empty, and the
numbers would go through shared memory on their way.
"""

from typing import no_type_check

import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from regard.attention.kernels.early import early


@triton.jit
@no_type_check
def _decode_one(
    Q, K, V, NEW_K, NEW_V, FILLED, O,
    q_source, q_head, k_source, k_head, k_row, v_source, v_head, v_row, n_source, n_head, m_source, m_head,
    filled_source, size, scale, NEWER: tl.constexpr, EARLY: tl.constexpr, HEADS: tl.constexpr, GROUP: tl.constexpr,
    WIDTH: tl.constexpr, FULL: tl.constexpr, VALUES: tl.constexpr, FULL_VALUES: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    if EARLY:
        gdc_launch_dependents()
    source, head = (tl.program_id(0) // HEADS).to(tl.int64), tl.program_id(0) % HEADS
    features, numbers = tl.arange(0, FULL), tl.arange(0, FULL_VALUES)
    wide, deep = features < WIDTH, numbers < VALUES
    K += source * k_source + head // GROUP * k_head
    V += source * v_source + head // GROUP * v_head
    end = tl.minimum(tl.load(FILLED + source * filled_source).to(tl.int32), size)
    if NEWER:  # the last key comes from outside and is put where it belongs
        end -= 1
    keys = tl.arange(0, N)
    inside = keys < end
    key = tl.load(K + keys[:, None] * k_row + features[None, :], inside[:, None] & wide[None, :], 0.0)
    value = tl.load(V + keys[:, None] * v_row + numbers[None, :], inside[:, None] & deep[None, :], 0.0)
    if EARLY:
        gdc_wait()
    query = tl.load(Q + source * q_source + head * q_head + features, wide, 0.0).to(tl.float32) * scale
    score = tl.where(inside, tl.sum(key.to(tl.float32) * query[None, :], 1), float("-inf"))
    top = tl.max(score, 0)
    if NEWER:
        newer = tl.load(NEW_K + source * n_source + head // GROUP * n_head + features, wide, 0.0)
        mixed = tl.load(NEW_V + source * m_source + head // GROUP * m_head + numbers, deep, 0.0)
        if head % GROUP == 0:
            tl.store(K + end * k_row + features, newer, wide)
            tl.store(V + end * v_row + numbers, mixed, deep)
        own = tl.sum(newer.to(tl.float32) * query, 0)
        top = tl.maximum(top, own)
    top = tl.where(top == float("-inf"), 0.0, top)
    weight = tl.exp2((score - top) * 1.4426950408889634)
    total = tl.sum(weight, 0)
    sums = tl.sum(weight[:, None] * value.to(tl.float32), 0)
    if NEWER:
        weight_own = tl.exp2((own - top) * 1.4426950408889634)
        total += weight_own
        sums += weight_own * mixed.to(tl.float32)
    for begin in range(N, end, N):
        further = begin + keys
        inside = further < end
        key = tl.load(K + further[:, None] * k_row + features[None, :], inside[:, None] & wide[None, :], 0.0)
        value = tl.load(V + further[:, None] * v_row + numbers[None, :], inside[:, None] & deep[None, :], 0.0)
        score = tl.where(inside, tl.sum(key.to(tl.float32) * query[None, :], 1), float("-inf"))
        higher = tl.maximum(top, tl.max(score, 0))
        shrink = tl.exp2((top - higher) * 1.4426950408889634)
        weight = tl.exp2((score - higher) * 1.4426950408889634)
        total = total * shrink + tl.sum(weight, 0)
        sums = sums * shrink + tl.sum(weight[:, None] * value.to(tl.float32), 0)
        top = higher
    place = O + (source * HEADS + head) * VALUES + numbers
    tl.store(place, (sums / tl.where(total > 0.0, total, 1.0)).to(O.dtype.element_ty), deep)


def decode_attention_one(
    query: Float[Tensor, "s h 1 d"],
    key: Float[Tensor, "s g k d"],
    value: Float[Tensor, "s g k dv"],
    *,
    filled: Int[Tensor, " _s"],  # keys that are there, for all sources or for each; others are not read
    scale: float,
    newest: tuple[Float[Tensor, "s g 1 d"], Float[Tensor, "s g 1 dv"]] | None = None,
) -> Float[Tensor, "s h 1 dv"]:
    """softmax(scale · QKᵀ) V over the first keys. A query that may look at nothing gets zeros.

    `newest` are the key and value of the query itself: they are put into the cache, as the last that is filled.
    """
    sources, heads, _, width = query.shape
    values = value.shape[-1]
    out = query.new_empty(sources, heads, 1, values)
    new_key, new_value = newest or (key, value)
    _decode_one[(sources * heads,)](
        query, key, value, new_key, new_value, filled, out,
        query.stride(0), query.stride(1), *key.stride()[:3], *value.stride()[:3],
        *new_key.stride()[:2], *new_value.stride()[:2], filled.stride(0) if len(filled) > 1 else 0,
        key.shape[2], scale, NEWER=newest is not None, HEADS=heads, GROUP=heads // key.shape[1],
        WIDTH=width, FULL=triton.next_power_of_2(width), VALUES=values,
        FULL_VALUES=triton.next_power_of_2(values), N=32, num_warps=1 if width <= 64 else 2,
        **early(query.device),
    )  # fmt: skip
    return out
