"""Attention in which every query sees one stretch of the keys, as a Triton kernel.

Packed sequences are such a thing: query i sees keys first[i] … last[i] − 1, which are the keys of its own sequence,
or those of them that are not ahead of it. A tile of queries spans several short sequences and asks only the keys
between the first and the last that any of its queries sees, so tiles are full where a kernel that gives every sequence
tiles of its own would leave them mostly empty. Nothing but the log-sum-exp is kept, no atomic addition is made, and the
backward pass goes once over the queries and once over the keys.
"""

from dataclasses import dataclass
from typing import Any, no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor


@triton.jit
@no_type_check
def _tile(pointer, rows, stride, count, WIDTH: tl.constexpr, FULL: tl.constexpr):
    """[rows, FULL]: rows of a head, zeros beyond the end and beyond the width."""
    columns = tl.arange(0, FULL)
    inside = (rows < count)[:, None] & (columns < WIDTH)[None, :]
    return tl.load(pointer + rows[:, None].to(tl.int64) * stride + columns[None, :], inside, 0.0)


@triton.jit
@no_type_check
def _put(pointer, tile, rows, stride, count, WIDTH: tl.constexpr, FULL: tl.constexpr):
    columns = tl.arange(0, FULL)
    inside = (rows < count)[:, None] & (columns < WIDTH)[None, :]
    tl.store(
        pointer + rows[:, None].to(tl.int64) * stride + columns[None, :],
        tile.to(pointer.dtype.element_ty),
        inside,
    )


@triton.jit
@no_type_check
def _span(FIRST, LAST, rows, count, others):
    """The stretch of each row, empty beyond the end, and the stretch of them all."""
    first = tl.load(FIRST + rows, rows < count, 0)
    last = tl.load(LAST + rows, rows < count, 0)
    some = last > first
    return first, last, tl.min(tl.where(some, first, others)), tl.max(tl.where(some, last, 0))


@triton.jit
@no_type_check
def _kept(SEED, rows, columns, keys, DROPOUT: tl.constexpr):
    """Which weights stay, times 1 / (1 − p): a function of the seed and the place of a weight, so both passes agree."""
    place = rows.to(tl.int64) * keys + columns
    return tl.where(tl.rand(tl.load(SEED), place) >= DROPOUT, 1.0 / (1.0 - DROPOUT), 0.0)


@triton.jit
@no_type_check
def _forward(
    Q, K, V, O, LSE, FIRST, LAST, SEED,
    q_row, q_head, k_row, k_head, v_row, v_head, o_row, o_head,
    queries, keys, scale,
    GROUP: tl.constexpr, WIDTH: tl.constexpr, FULL: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    PRECISION: tl.constexpr, DROPOUT: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * M + tl.arange(0, M)
    head = tl.program_id(1)
    first, last, start, end = _span(FIRST, LAST, rows, queries, keys)
    query = _tile(Q + head * q_head, rows, q_row, queries, WIDTH, FULL)
    K += head // GROUP * k_head
    V += head // GROUP * v_head
    top = tl.full([M], float("-inf"), tl.float32)
    total = tl.zeros([M], tl.float32)
    mixed = tl.zeros([M, FULL], tl.float32)
    for begin in range(start, end, N):
        columns = begin + tl.arange(0, N)
        key = _tile(K, columns, k_row, keys, WIDTH, FULL)
        score = tl.dot(query, tl.trans(key), input_precision=PRECISION) * scale
        seen = (columns[None, :] >= first[:, None]) & (columns[None, :] < last[:, None])
        score = tl.where(seen, score, float("-inf"))
        higher = tl.maximum(top, tl.max(score, 1))
        base = tl.where(higher == float("-inf"), 0.0, higher)
        weight = tl.exp2(score - base[:, None])
        shrink = tl.exp2(top - base)
        total = total * shrink + tl.sum(weight, 1)
        if DROPOUT > 0.0:
            weight *= _kept(SEED, head * queries + rows[:, None], columns[None, :], keys, DROPOUT)
        value = _tile(V, columns, v_row, keys, WIDTH, FULL)
        mixed = mixed * shrink[:, None] + tl.dot(weight.to(value.dtype), value, input_precision=PRECISION)
        top = higher
    some = total > 0.0
    mixed = tl.where(some[:, None], mixed / tl.where(some, total, 1.0)[:, None], 0.0)
    _put(O + head * o_head, mixed, rows, o_row, queries, WIDTH, FULL)
    # A query that sees nothing gets +∞: its weights come out as 2^−∞ when they are made again.
    lse = tl.where(some, top + tl.log2(tl.where(some, total, 1.0)), float("inf"))
    tl.store(LSE + head * queries + rows, lse, rows < queries)


@triton.jit
@no_type_check
def _to_query(
    Q, K, V, O, GO, GQ, LSE, DELTA, FIRST, LAST, SEED,
    q_row, q_head, k_row, k_head, v_row, v_head, o_row, o_head, go_row, go_head, gq_row, gq_head,
    queries, keys, scale, factor,
    GROUP: tl.constexpr, WIDTH: tl.constexpr, FULL: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    PRECISION: tl.constexpr, DROPOUT: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * M + tl.arange(0, M)
    head = tl.program_id(1)
    first, last, start, end = _span(FIRST, LAST, rows, queries, keys)
    query = _tile(Q + head * q_head, rows, q_row, queries, WIDTH, FULL)
    slope = _tile(GO + head * go_head, rows, go_row, queries, WIDTH, FULL)
    output = _tile(O + head * o_head, rows, o_row, queries, WIDTH, FULL)
    delta = tl.sum(slope.to(tl.float32) * output.to(tl.float32), 1)
    tl.store(DELTA + head * queries + rows, delta, rows < queries)
    lse = tl.load(LSE + head * queries + rows, rows < queries, float("inf"))
    K += head // GROUP * k_head
    V += head // GROUP * v_head
    gradient = tl.zeros([M, FULL], tl.float32)
    for begin in range(start, end, N):
        columns = begin + tl.arange(0, N)
        key = _tile(K, columns, k_row, keys, WIDTH, FULL)
        value = _tile(V, columns, v_row, keys, WIDTH, FULL)
        score = tl.dot(query, tl.trans(key), input_precision=PRECISION) * scale
        seen = (columns[None, :] >= first[:, None]) & (columns[None, :] < last[:, None])
        weight = tl.where(seen, tl.exp2(score - lse[:, None]), 0.0)
        along = tl.dot(slope, tl.trans(value), input_precision=PRECISION)
        if DROPOUT > 0.0:
            along *= _kept(SEED, head * queries + rows[:, None], columns[None, :], keys, DROPOUT)
        inner = weight * (along - delta[:, None])
        gradient += tl.dot(inner.to(key.dtype), key, input_precision=PRECISION)
    _put(GQ + head * gq_head, gradient * factor, rows, gq_row, queries, WIDTH, FULL)


@triton.jit
@no_type_check
def _to_key(
    Q, K, V, GO, GK, GV, LSE, DELTA, FIRST, LAST, ASKED_FIRST, ASKED_LAST, SEED,
    q_row, q_head, k_row, k_head, v_row, v_head, go_row, go_head, gk_row, gk_head, gv_row, gv_head,
    queries, keys, scale, factor,
    GROUP: tl.constexpr, WIDTH: tl.constexpr, FULL: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    PRECISION: tl.constexpr, DROPOUT: tl.constexpr,
):  # fmt: skip
    columns = tl.program_id(0) * N + tl.arange(0, N)
    kv_head = tl.program_id(1)
    _, _, start, end = _span(ASKED_FIRST, ASKED_LAST, columns, keys, queries)
    key = _tile(K + kv_head * k_head, columns, k_row, keys, WIDTH, FULL)
    value = _tile(V + kv_head * v_head, columns, v_row, keys, WIDTH, FULL)
    to_key = tl.zeros([N, FULL], tl.float32)
    to_value = tl.zeros([N, FULL], tl.float32)
    for member in range(GROUP):
        head = kv_head * GROUP + member
        for begin in range(start, end, M):
            rows = begin + tl.arange(0, M)
            query = _tile(Q + head * q_head, rows, q_row, queries, WIDTH, FULL)
            slope = _tile(GO + head * go_head, rows, go_row, queries, WIDTH, FULL)
            lse = tl.load(LSE + head * queries + rows, rows < queries, float("inf"))
            delta = tl.load(DELTA + head * queries + rows, rows < queries, 0.0)
            first = tl.load(FIRST + rows, rows < queries, 0)
            last = tl.load(LAST + rows, rows < queries, 0)
            score = tl.dot(key, tl.trans(query), input_precision=PRECISION) * scale
            seen = (columns[:, None] >= first[None, :]) & (columns[:, None] < last[None, :])
            weight = tl.where(seen, tl.exp2(score - lse[None, :]), 0.0)
            along = tl.dot(value, tl.trans(slope), input_precision=PRECISION)
            given = weight
            if DROPOUT > 0.0:
                kept = _kept(SEED, head * queries + rows[None, :], columns[:, None], keys, DROPOUT)
                given = weight * kept
                along *= kept
            to_value += tl.dot(given.to(slope.dtype), slope, input_precision=PRECISION)
            inner = weight * (along - delta[None, :])
            to_key += tl.dot(inner.to(query.dtype), query, input_precision=PRECISION)
    _put(GK + kv_head * gk_head, to_key * factor, columns, gk_row, keys, WIDTH, FULL)
    _put(GV + kv_head * gv_head, to_value, columns, gv_row, keys, WIDTH, FULL)


# Queries and keys of a tile, and warps: the fastest of eight tried on an H200 with sentences of 15 tokens.
TILES = {"forward": (64, 32, 4), "query": (64, 32, 4), "key": (32, 32, 2)}
_LOG2E = 1.4426950408889634


@dataclass(frozen=True, eq=False)
class Stretches:
    """Query i sees keys first[i] … last[i] − 1; every query that sees key j is among asked_first[j] … asked_last[j] − 1."""

    first: Int[Tensor, " q"]
    last: Int[Tensor, " q"]
    asked_first: Int[Tensor, " k"]
    asked_last: Int[Tensor, " k"]


def attend_stretches(
    query: Float[Tensor, "q h d"],
    key: Float[Tensor, "k g d"],
    value: Float[Tensor, "k g dv"],
    stretches: Stretches,
    *,
    scale: float,
    dropout: float = 0.0,
) -> Float[Tensor, "q h dv"]:
    """dropout(softmax(scale · QKᵀ)) V, each query over its own stretch of the keys."""
    width = max(query.shape[-1], value.shape[-1])
    parts = (_ready(part, width) for part in (query, key, value))
    limits = (stretches.first, stretches.last, stretches.asked_first, stretches.asked_last)
    if dropout:
        seed = torch.randint(1 << 62, (1,), device=query.device)
    else:
        seed = query.new_empty(1, dtype=torch.int64)  # never read
    output, _ = _attend(*parts, *limits, seed, scale, dropout)
    return output[..., : value.shape[-1]]


def _ready(x: Tensor, width: int) -> Tensor:
    """As wide as the widest, and each vector in one piece."""
    if x.shape[-1] < width:
        return torch.nn.functional.pad(x, (0, width - x.shape[-1]))
    return x if x.stride(-1) == 1 else x.contiguous()


def _sizes(query: Tensor, key: Tensor, dropout: float, tile: str) -> dict[str, Any]:
    width = query.shape[-1]
    rows, columns, warps = TILES[tile]
    return {
        "GROUP": query.shape[1] // key.shape[1],
        "WIDTH": width,
        "FULL": max(16, triton.next_power_of_2(width)),
        "M": rows,
        "N": columns,
        "PRECISION": "ieee" if query.dtype == torch.float32 else "tf32",
        "DROPOUT": dropout,
        "num_warps": warps,
    }


def _strides(*tensors: Tensor) -> list[int]:
    return [stride for tensor in tensors for stride in tensor.stride()[:2]]


@torch.library.custom_op("regard::stretches", mutates_args=())
def _attend(
    query: Tensor, key: Tensor, value: Tensor,
    first: Tensor, last: Tensor, asked_first: Tensor, asked_last: Tensor, seed: Tensor,
    scale: float, dropout: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    (queries, heads, _), keys = query.shape, key.shape[0]
    output = torch.empty(query.shape, dtype=query.dtype, device=query.device)
    lse = torch.empty(heads, queries, dtype=torch.float32, device=query.device)
    sizes = _sizes(query, key, dropout, "forward")
    _forward[(triton.cdiv(queries, sizes["M"]), heads)](
        query, key, value, output, lse, first, last, seed,
        *_strides(query, key, value, output), queries, keys, scale * _LOG2E, **sizes,
    )  # fmt: skip
    return output, lse


@torch.library.custom_op("regard::stretches_backward", mutates_args=())
def _backward(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, output: Tensor, lse: Tensor,
    first: Tensor, last: Tensor, asked_first: Tensor, asked_last: Tensor, seed: Tensor,
    scale: float, dropout: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    (queries, heads, _), (keys, kv_heads, _) = query.shape, key.shape
    to_query, to_key, to_value = (
        torch.empty(part.shape, dtype=part.dtype, device=part.device) for part in (query, key, value)
    )
    delta = torch.empty_like(lse)
    numbers = (queries, keys, scale * _LOG2E, scale)
    sizes = _sizes(query, key, dropout, "query")
    _to_query[(triton.cdiv(queries, sizes["M"]), heads)](
        query, key, value, output, grad, to_query, lse, delta, first, last, seed,
        *_strides(query, key, value, output, grad, to_query), *numbers, **sizes,
    )  # fmt: skip
    sizes = _sizes(query, key, dropout, "key")
    _to_key[(triton.cdiv(keys, sizes["N"]), kv_heads)](
        query, key, value, grad, to_key, to_value, lse, delta, first, last, asked_first, asked_last, seed,
        *_strides(query, key, value, grad, to_key, to_value), *numbers, **sizes,
    )  # fmt: skip
    return to_query, to_key, to_value


@_attend.register_fake
def _(query, key, value, first, last, asked_first, asked_last, seed, scale, dropout):  # type: ignore[no-untyped-def]
    return query.new_empty(query.shape), query.new_empty(query.shape[1], query.shape[0], dtype=torch.float32)


@_backward.register_fake
def _(grad, query, key, value, output, *_rest):  # type: ignore[no-untyped-def]
    return query.new_empty(query.shape), key.new_empty(key.shape), value.new_empty(value.shape)


def _remember(ctx, inputs, output):  # type: ignore[no-untyped-def]
    *tensors, ctx.scale, ctx.dropout = inputs
    ctx.save_for_backward(*tensors[:3], *output, *tensors[3:])


def _differentiate(ctx, grad, _):  # type: ignore[no-untyped-def]
    if grad.stride(-1) != 1:
        grad = grad.contiguous()
    return *_backward(grad, *ctx.saved_tensors, ctx.scale, ctx.dropout), *[None] * 7


_attend.register_autograd(_differentiate, setup_context=_remember)
