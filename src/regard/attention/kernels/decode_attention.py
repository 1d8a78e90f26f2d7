"""Attention of a few queries over a KV cache, as a Triton kernel: a step of decoding.

A head of a source is one program. What each query may look at is added to its scores, and only the part of the cache
that is filled is read; how far that goes stands on the device, so that one record serves every step.
"""

from typing import no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.kernels.decode_attention_one import decode_attention_one

MAX_QUERIES = 16  # queries


@triton.jit
@no_type_check
def _decode_attention(
    Q, K, V, NEW_K, NEW_V, ADDED, FILLED, O,
    q_source, q_head, q_row, k_source, k_head, k_row, v_source, v_head, v_row, a_source, a_row,
    o_source, o_head, o_row, n_source, n_head, n_row, m_source, m_head, m_row, filled_source, queries, size, scale,
    MASKED: tl.constexpr, NEWER: tl.constexpr, HEADS: tl.constexpr, GROUP: tl.constexpr, WIDTH: tl.constexpr,
    FULL: tl.constexpr, VALUES: tl.constexpr, FULL_VALUES: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    source, head = tl.program_id(0) // HEADS, tl.program_id(0) % HEADS
    rows, features, numbers = tl.arange(0, M), tl.arange(0, FULL), tl.arange(0, FULL_VALUES)
    there = rows < queries
    asking = there[:, None] & (features < WIDTH)[None, :]
    query = tl.load(
        Q + source.to(tl.int64) * q_source + head * q_head + rows[:, None] * q_row + features[None, :],
        asking,
        0.0,
    )
    K += source.to(tl.int64) * k_source + head // GROUP * k_head
    V += source.to(tl.int64) * v_source + head // GROUP * v_head
    ADDED += source.to(tl.int64) * a_source
    end = tl.minimum(tl.load(FILLED + source * filled_source).to(tl.int32), size)
    if (
        NEWER
    ):  # the last keys come from outside and are put where they belong; each is seen by its own query alone
        end -= queries
    top = tl.full([M], float("-inf"), tl.float32)
    total = tl.zeros([M], tl.float32)
    mixed = tl.zeros([M, FULL_VALUES], tl.float32)
    for begin in range(0, end, N):
        keys = begin + tl.arange(0, N)
        inside = keys < end
        key = tl.load(
            K + keys[:, None] * k_row + features[None, :], inside[:, None] & (features < WIDTH)[None, :], 0.0
        )
        score = tl.dot(query, tl.trans(key), input_precision=PRECISION) * scale
        seen = there[:, None] & inside[None, :]
        if MASKED:
            added = tl.load(ADDED + rows[:, None] * a_row + keys[None, :], seen, float("-inf"))
            score += added.to(tl.float32)
        else:
            score = tl.where(seen, score, float("-inf"))
        higher = tl.maximum(top, tl.max(score, 1))
        base = tl.where(higher == float("-inf"), 0.0, higher)
        weight = tl.exp2((score - base[:, None]) * 1.4426950408889634)
        shrink = tl.exp2((top - base) * 1.4426950408889634)
        total = total * shrink + tl.sum(weight, 1)
        value = tl.load(
            V + keys[:, None] * v_row + numbers[None, :], inside[:, None] & (numbers < VALUES)[None, :], 0.0
        )
        mixed = mixed * shrink[:, None] + tl.dot(weight.to(value.dtype), value, input_precision=PRECISION)
        top = higher
    if NEWER:
        before = NEW_K + source.to(tl.int64) * n_source + head // GROUP * n_head
        key = tl.load(before + rows[:, None] * n_row + features[None, :], asking, 0.0)
        before = NEW_V + source.to(tl.int64) * m_source + head // GROUP * m_head
        holding = there[:, None] & (numbers < VALUES)[None, :]
        value = tl.load(before + rows[:, None] * m_row + numbers[None, :], holding, 0.0)
        if head % GROUP == 0:
            tl.store(K + (end + rows)[:, None] * k_row + features[None, :], key, asking)
            tl.store(V + (end + rows)[:, None] * v_row + numbers[None, :], value, holding)
        score = tl.sum(query.to(tl.float32) * key.to(tl.float32), 1) * scale
        higher = tl.maximum(top, score)
        weight = tl.exp2((score - higher) * 1.4426950408889634)
        shrink = tl.exp2((top - higher) * 1.4426950408889634)
        total = total * shrink + weight
        mixed = mixed * shrink[:, None] + weight[:, None] * value.to(tl.float32)
    mixed = mixed / tl.where(total > 0.0, total, 1.0)[:, None]
    place = O + source.to(tl.int64) * o_source + head * o_head + rows[:, None] * o_row + numbers[None, :]
    tl.store(place, mixed.to(O.dtype.element_ty), there[:, None] & (numbers < VALUES)[None, :])


def decode_attention(
    query: Float[Tensor, "s h q d"],
    key: Float[Tensor, "s g k d"],
    value: Float[Tensor, "s g k dv"],
    *,
    added: Float[Tensor, "s 1 _q k"] | None,
    filled: Int[Tensor, " _s"],  # keys that are there, for all sources or for each; others are not read
    scale: float,
    newest: tuple[Float[Tensor, "s g q d"], Float[Tensor, "s g q dv"]] | None = None,
) -> Float[Tensor, "s h q dv"]:
    """softmax(scale · QKᵀ + added) V over the first keys. A query that may look at nothing gets zeros.

    Without `added`, every query looks at all keys that are there.

    `newest` are the keys and values of the queries themselves: they are put into the cache, as the last that are filled,
    and each is seen by its own query.
    """
    sources, heads, queries, width = query.shape
    if queries == 1 and added is None:
        return decode_attention_one(query, key, value, filled=filled, scale=scale, newest=newest)
    values = value.shape[-1]
    # In the order in which heads are joined again, so that nothing is copied for that.
    out = query.new_empty(sources, queries, heads, values).transpose(1, 2)
    new_key, new_value = newest or (key, value)
    mask = filled[:1, None, None, None] if added is None else added  # never read in the first case
    full = max(16, triton.next_power_of_2(width))
    tile = 64 if query.dtype.itemsize == 2 else 32
    _decode_attention[(sources * heads,)](
        query, key, value, new_key, new_value, mask, filled, out,
        query.stride(0), query.stride(1), query.stride(2), key.stride(0), key.stride(1), key.stride(2),
        value.stride(0), value.stride(1), value.stride(2),
        mask.stride(0), mask.stride(2) if mask.shape[2] > 1 else 0,
        out.stride(0), out.stride(1), out.stride(2), *new_key.stride()[:3], *new_value.stride()[:3],
        filled.stride(0) if len(filled) > 1 else 0, queries, key.shape[2], scale,
        MASKED=added is not None, NEWER=newest is not None,
        HEADS=heads, GROUP=heads // key.shape[1], WIDTH=width, FULL=full,
        VALUES=values, FULL_VALUES=max(16, triton.next_power_of_2(values)), M=MAX_QUERIES, N=tile,
        PRECISION="ieee" if query.dtype == torch.float32 else "tf32",
        num_warps=4 if width > 64 else 2,
    )  # fmt: skip
    return out
