"""torch's flash kernel for the CPU, called by name over the real positions of padded rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.call import Call
from regard.attention.kernels.learned_bias import by_autocast
from regard.attention.padding import Real
from regard.attention.reach import Reach
from regard.attention.scores import share

_LEAST = 1 << 18  # products of a score that a row needs to be worth a call of the kernel
_ONE_CALL = 1 << 21  # products that take as long as calling the kernel once more
_ROUND = 32  # queries that the kernel takes together; matrices of other sizes are slower
_kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_kernel_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
_Span = tuple[int, int]  # the first of some positions, and the one after the last
_Part = tuple[slice, slice, slice]  # rows of a batch, their queries, their keys


def takes_padding(call: Call, reach: Reach) -> bool:
    """Whether the call is one of padded rows, whose real positions the kernel can be given."""
    query, key = call.query, call.key
    if query.ndim != 4 or call.bias is not None or not call.score.dot_product:
        return False
    if reach.rest is not None or reach.packs is not None or reach.asking is reach.asked is None:
        return False
    square = reach.bounded == (None, 0) and reach.asking is reach.asked and query.shape[2] == key.shape[2]
    if not square and reach.bounded != (None, None):
        return False
    rows, heads, queries, width = query.shape
    if not (_counted(reach.asking, rows) and _counted(reach.asked, rows)):
        return False
    return heads * queries * key.shape[2] * width >= _LEAST and _callable_with(query)


def _callable_with(query: Tensor) -> bool:
    """Whether the kernel can be called by name: not for a traced graph, a subclass, or the transforms of torch.func."""
    return (
        query.is_cpu
        and type(query) in (Tensor, nn.Parameter)
        and not torch.compiler.is_compiling()
        and not torch._C._are_functorch_transforms_active()
    )


def _counted(real: Tensor | Real | None, rows: int) -> bool:
    """Whether padding is told as one number for all rows, or one for each."""
    if not isinstance(real, Real) or isinstance(real.count, int):
        return not isinstance(real, Tensor)
    return real.count.numel() == 1 or (real.count.numel() == real.count.shape[0] == rows)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Plan:
    """How a batch is cut into calls of the kernel."""

    parts: Sequence[_Part]
    queries: Sequence[_Span]  # the real ones of each row
    keys: Sequence[_Span]
    causal: bool
    inexact: bool  # whether parts have padding in them, which must hold no NaN
    finite: bool  # whether it holds none
    scale: float


def flash_padded(
    query: Float[Tensor, "b h q d"],
    key: Float[Tensor, "b g k d"],
    value: Float[Tensor, "b g k dv"],
    reach: Reach,
    *,
    scale: float,
    sanitised: bool,  # whether padding holds no NaN or infinity
) -> Float[Tensor, "b h q dv"]:
    """softmax(scale · QKᵀ) V over the real keys of each row; zeros for a query that may look at nothing."""
    query, key, value = by_autocast(query, key, value)
    key, value = share(key, query), share(value, query)
    values, wide = value.shape[-1], max(query.shape[-1], value.shape[-1])
    query, key, value = (
        x if x.shape[-1] == wide else nn.functional.pad(x, (0, wide - x.shape[-1]))
        for x in (query, key, value)
    )
    plan = _planned(query, key, reach, scale, finite=sanitised)
    mixed: Tensor = _Flash.apply(query, key, value, plan)  # type: ignore[no-untyped-call]
    return mixed if values == wide else mixed[..., :values]


def _planned(
    query: Float[Tensor, "b h q d"],
    key: Float[Tensor, "b h k d"],
    reach: Reach,
    scale: float,
    *,
    finite: bool,
) -> _Plan:
    """Neighbouring rows of equal lengths go together, and rows without any query or key are left out.

    Where a query sees nothing behind itself and padding is on the right, padded keys are seen by padded queries alone. Rows
    of unequal lengths then go together too, where that takes less time than one more call.
    """
    queries, keys = _spans(reach.asking, query), _spans(reach.asked, key)
    causal, ends = reach.bounded == (None, 0), queries
    if causal and all(begin == 0 for begin, _ in queries):
        ends = _joined([end for _, end in queries], query.shape[2], query.shape[1] * query.shape[3])
    parts, begin = [], 0
    for (q, k), group in groupby(zip(ends, keys if ends is queries else ends, strict=True)):
        end = begin + sum(1 for _ in group)
        if q[0] < q[1] and k[0] < k[1]:
            parts.append((slice(begin, end), slice(*q), slice(*k)))
        begin = end
    return _Plan(
        parts=parts,
        queries=queries,
        keys=keys,
        causal=causal,
        inexact=ends != queries,
        finite=finite,
        scale=scale,
    )


def _joined(counts: list[int], size: int, width: int) -> list[_Span]:
    """How far each row of a causal batch is computed; `width` is that of all heads together."""

    def products(count: int) -> int:
        return count * count * width  # half of them for the scores, half for the values

    ends: list[int] = []
    begin = 0  # of the rows that go together
    for row, count in enumerate(counts):
        end = min(size, -(-count // _ROUND) * _ROUND)
        joined = max(end, ends[begin]) if row else end
        extra = (row - begin) * (products(joined) - products(ends[begin])) if row else 0
        extra += products(joined) - products(end)
        if extra > _ONE_CALL:
            begin, joined = row, end
        ends[begin:] = [joined] * (row + 1 - begin)
    return [(0, end) for end in ends]


def _spans(real: Tensor | Real | None, x: Float[Tensor, "b h n d"]) -> list[_Span]:
    """The real positions of every row."""
    rows, size = x.shape[0], x.shape[2]
    if not isinstance(real, Real):
        return [(0, size)] * rows
    counts = [real.count] if isinstance(real.count, int) else real.count.flatten().tolist()
    counts = [min(max(count, 0), size) for count in counts]
    spans = [(0, count) if real.padded == "right" else (size - count, size) for count in counts]
    return spans * rows if len(spans) == 1 else spans


class _Flash(torch.autograd.Function):
    """The kernel, part by part. Its log-sum-exp is kept for the gradient."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, plan: _Plan) -> Tensor:
        value = _cleaned(value, plan.keys) if plan.inexact and not plan.finite else value
        found = [
            _kernel(
                query[rows, :, q],
                key[rows, :, k],
                value[rows, :, k],
                0.0,
                plan.causal,
                scale=plan.scale,
            )
            for rows, q, k in plan.parts
        ]
        mixed = _together([mixed for mixed, _ in found], [(rows, q) for rows, q, _ in plan.parts], query)
        zero_outside(mixed, plan.queries)
        ctx.save_for_backward(query, key, value, mixed, *(sums for _, sums in found))
        ctx.plan = plan
        return mixed

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, mixed, *sums = ctx.saved_tensors
        plan: _Plan = ctx.plan
        if plan.inexact:
            grad = _cleaned(grad, plan.queries)
        if plan.inexact and not plan.finite:
            query, key = (_cleaned(x, plan.queries) for x in (query, key))
        found = []
        for (rows, q, k), logsumexp in zip(plan.parts, sums, strict=True):
            parts = grad[rows, :, q], query[rows, :, q], key[rows, :, k], value[rows, :, k]
            if plan.inexact:
                cut = [(begin, min(end, q.stop)) for begin, end in plan.queries[rows]]
                logsumexp = _cleaned(logsumexp[..., None], cut)[..., 0]
            found.append(
                _kernel_backward(
                    *parts,
                    mixed[rows, :, q],
                    logsumexp,
                    0.0,
                    plan.causal,
                    scale=plan.scale,
                )
            )
        places = [[(part[0], part[which]) for part in plan.parts] for which in (1, 2, 2)]
        grads = [
            _together([parts[i] for parts in found], places[i], x) for i, x in enumerate((query, key, value))
        ]
        return *grads, None


def _together(parts: Sequence[Tensor], places: Sequence[tuple[slice, slice]], like: Tensor) -> Tensor:
    """One tensor of parts at their places, and zeros elsewhere."""
    rows, heads, size, width = like.shape
    if len(parts) == 1 and parts[0].shape == like.shape:
        return parts[0]
    whole = like.new_empty(rows, size, heads, width).transpose(1, 2)  # laid out as the kernel's results are
    done = 0
    for part, (at, span) in zip(parts, places, strict=True):
        whole[at, :, span] = part
        whole[done : at.start] = 0.0
        whole[at, :, : span.start] = 0.0
        whole[at, :, span.stop :] = 0.0
        done = at.stop
    whole[done:] = 0.0
    return whole


def _cleaned(x: Float[Tensor, "b h n d"], real: Sequence[_Span]) -> Float[Tensor, "b h n d"]:
    """A copy with zeros at positions that are not real."""
    copy = x.clone()
    zero_outside(copy, real)
    return copy


def zero_outside(x: Float[Tensor, "b h n d"], real: Sequence[_Span]) -> None:
    """Put zeros where no position of a row is real."""
    size = x.shape[2]
    outside = [x[row, :, :begin] for row, (begin, _) in enumerate(real) if begin > 0]
    outside += [x[row, :, end:] for row, (_, end) in enumerate(real) if end < size]
    if outside:
        torch._foreach_zero_(outside)
