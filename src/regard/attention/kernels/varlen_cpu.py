"""Attention over variable lengths on a CPU: a C kernel that reads no padding, forward and backward.

It takes lengths, windows, causal masks, packed sequences and grouped heads, in float32 and bfloat16.
"""

import ctypes
from collections.abc import Iterable
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.attention.call import Call, by_autocast
from regard.attention.kernels.native import NOT_BUILT, Kernels, has_tangent, kernels, untraced
from regard.attention.padding import Real
from regard.attention.reach import Reach

_WIDEST = 256  # features for which the kernel has space
_FAR = 1 << 30  # a limit of a band beyond every position
_ITEMS = 32  # pieces of work that keep many threads busy
_DTYPES = (torch.float32, torch.bfloat16)


def varlen_cpu_refusal(call: Call, reach: Reach | None, dropout: float) -> str | None:
    """Why the kernel cannot compute a call on a CPU; None if it can."""
    query = call.query
    if not (untraced(query) and untraced(call.key)):
        return "it cannot be traced: not by torch.compile, torch.jit or torch.export, nor by the transforms of torch.func"
    compiled = kernels()
    if compiled is None:
        return NOT_BUILT
    if not compiled.multiplies_float32:
        return "it needs a CPU with AVX2"
    if dropout:
        return "it has no dropout"
    if call.bias is not None or not call.score.dot_product:
        return "it takes dot products without a bias"
    if query.dtype not in _DTYPES:
        return "it takes float32 and bfloat16"
    if 0 in query.shape or 0 in call.key.shape:
        return "there are no queries or no keys"
    width = call.key.shape[-1]
    if call.score.maps:
        width = call.score.map_key(call.key[..., :0, :]).shape[-1]
    if width > _WIDEST:
        return f"it takes heads of at most {_WIDEST} features"
    if query.ndim > 4 or (query.ndim == 3 and call.groups > 1):
        return f"it takes heads in rows of a batch, and here are {query.ndim} axes"
    return None if reach is None else _reach_refusal(reach, 1 if query.ndim == 2 else query.shape[0])


def _reach_refusal(reach: Reach, rows: int) -> str | None:
    """Why the kernel cannot take what may look at what."""
    if reach.rest is not None:
        return "it takes lengths and a band, and the mask says more than these"
    if reach.packs is not None:
        return None if rows == 1 else "packed sequences lie in one row"
    for real in (reach.asking, reach.asked):
        if isinstance(real, Tensor):
            return "it takes one length a row, and the mask puts several together"
        if isinstance(real, Real) and isinstance(real.count, Tensor):
            count = real.count
            if count.numel() != 1 and not count.numel() == count.shape[0] == rows:
                return f"it takes one length for all heads of a row, and here are lengths of shape {tuple(count.shape)}"
    return None


class _Span(NamedTuple):
    """A sequence: its row of the batch, its first query, how many, its first key, how many."""

    row: int
    query: int
    queries: int
    key: int
    keys: int


class _CRanges(NamedTuple):
    """A call as the kernel takes it."""

    sequences: Any  # an array of C; None: every row of the batch is one
    gaps: Any
    counts: tuple[int, int, int]  # of sequences, and of gaps of queries and of keys
    band: tuple[int, int]


def varlen_cpu(
    query: Float[Tensor, "*batch q d"],
    key: Float[Tensor, "*kv_batch k d"],
    value: Float[Tensor, "*kv_batch k dv"],
    reach: Reach | None,
    *,
    scale: float,
) -> Float[Tensor, "*batch q dv"]:
    """softmax(scale · QKᵀ) V, each query over the keys of its sequence; zeros for a query that may look at nothing."""
    shape = query.shape
    query, key, value = by_autocast(query, key, value)
    given = value.dtype
    if not (
        query.dtype == key.dtype == given and given in _DTYPES
    ):  # autocast to float16, or a score of another dtype
        query, key, value = query.float(), key.float(), value.float()
    if len(shape) != 4:
        query, key, value = _four_axes(query), _four_axes(key), _four_axes(value)
    query, key, value = _dense(query), _dense(key), _dense(value)
    sizes = query.shape[0], query.shape[2], key.shape[2]
    ranges = (
        _CRanges(None, None, (sizes[0], 0, 0), (-_FAR, _FAR))  # every query sees every key of its row
        if reach is None
        else reach.once(("varlen_cpu", sizes), lambda: _ranges(reach, *sizes))
    )
    if value.shape[-1] <= _WIDEST:
        mixed = _attended(query, key, value, ranges, scale)
    else:
        parts = torch.split(value, _WIDEST, dim=-1)
        mixed = torch.cat([_attended(query, key, part, ranges, scale) for part in parts], dim=-1)
    mixed = mixed if mixed.dtype == given else mixed.to(given)
    return mixed if len(shape) == 4 else mixed.reshape(*shape[:-1], value.shape[-1])


def _attended(query: Tensor, key: Tensor, value: Tensor, ranges: _CRanges, scale: float) -> Tensor:
    wanted = torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad)
    if wanted or has_tangent(value):  # which the operator refuses
        return _VarlenCPU.apply(query, key, value, ranges, scale)  # type: ignore[no-untyped-call]
    # The same kernel, without what only a gradient needs.
    return _forward(query, key, value, ranges, scale, None)


def _four_axes(x: Float[Tensor, "*batch n d"]) -> Float[Tensor, "b h n d"]:
    return x if x.ndim == 4 else x.unsqueeze(1) if x.ndim == 3 else x[None, None]


def _ranges(reach: Reach, rows: int, queries: int, keys: int) -> _CRanges:
    low, high = reach.bounded
    band = -_FAR if low is None else low, _FAR if high is None else high
    if reach.packs is None and reach.asking is reach.asked is None:
        whole = _Span(0, 0, queries, 0, keys)
        if _within(whole, *band) == whole:
            return _CRanges(None, None, (rows, 0, 0), band)
    spans = [_within(span, *band) for span in _spans(reach, rows, queries, keys)]
    spans = [span for span in spans if span.queries > 0 and span.keys > 0]
    gaps = _gaps([(span.row, span.query, span.queries) for span in spans], rows, queries)
    key_gaps = _gaps([(span.row, span.key, span.keys) for span in spans], rows, keys)
    counts = len(spans), len(gaps), len(key_gaps)
    return _CRanges(_numbers(spans), _numbers([*gaps, *key_gaps]), counts, band)


def _spans(reach: Reach, rows: int, queries: int, keys: int) -> list[_Span]:
    """The sequences of a call."""
    if reach.packs is not None:
        asking, asked = reach.packs.queries, reach.packs.keys
        columns = (part.tolist() for part in (asking.starts, asking.lengths, asked.starts, asked.lengths))
        return [_Span(0, *numbers) for numbers in zip(*columns, strict=True)]
    looking = _real(reach.asking, rows, queries)
    seen = looking if reach.asked is reach.asking and keys == queries else _real(reach.asked, rows, keys)
    return [_Span(row, *one, *other) for row, (one, other) in enumerate(zip(looking, seen, strict=True))]


def _real(real: Tensor | Real | None, rows: int, size: int) -> list[tuple[int, int]]:
    """The first real position of every row, and how many there are."""
    if not isinstance(real, Real):
        return [(0, size)] * rows
    counts = [real.count] if isinstance(real.count, int) else real.count.flatten().tolist()
    counts = [min(max(count, 0), size) for count in counts]
    found = [(0 if real.padded == "right" else size - count, count) for count in counts]
    return found * rows if len(found) == 1 else found


def _within(span: _Span, low: int, high: int) -> _Span:
    """The queries that see something under a band, and the keys that one of them sees: others may hold anything."""
    row, query, queries, key, keys = span
    ahead = key - query
    first, last = max(0, ahead - high), min(queries, keys + ahead - low)
    start, end = max(0, first + low - ahead), min(keys, last + high - ahead)
    return _Span(row, query + first, last - first, key + start, end - start)


def _gaps(taken: Iterable[tuple[int, int, int]], rows: int, size: int) -> list[tuple[int, int, int]]:
    """What is left of a batch: a row, a first position and how many."""
    found, row, done = [], 0, 0
    for at, first, count in (*taken, (rows, 0, 0)):
        while row < at:
            if done < size:
                found.append((row, done, size - done))
            row, done = row + 1, 0
        if first > done:
            found.append((row, done, first - done))
        done = first + count
    return found


def _numbers(rows: Iterable[Iterable[int]]) -> Any:
    numbers = [number for row in rows for number in row]
    return (ctypes.c_long * len(numbers))(*numbers)


def _dense(x: Tensor) -> Tensor:
    """With neighbouring numbers along the last axis."""
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def _empty(like: Tensor, width: int) -> Tensor:
    """In the order in which heads are joined again, so that nothing is copied for that."""
    rows, heads, size, _ = like.shape
    steps = (size * heads * width, width, heads * width, 1)
    return torch.empty_strided((rows, heads, size, width), steps, dtype=like.dtype, device="cpu")


_FORWARD, _BACKWARD = (
    ctypes.c_long * (13 + 4 * 4),
    ctypes.c_long * (13 + 4 * 8),
)  # how many numbers a call takes


def _sizes(query: Tensor, key: Tensor, value: Tensor, ranges: _CRanges) -> tuple[int, ...]:
    """As varlen.c lists them, before the steps of tensors."""
    (_, heads, queries, width), (_, kv_heads, keys, _) = query.shape, key.shape
    sequences, gaps, key_gaps = ranges.counts
    parts = -(-_ITEMS // (sequences * kv_heads)) if sequences else 1
    half = query.dtype == torch.bfloat16
    return (
        heads, heads // kv_heads, width, value.shape[3], queries, sequences, *ranges.band, parts, half, gaps, key_gaps, keys,
    )  # fmt: skip


def _forward(
    query: Tensor, key: Tensor, value: Tensor, ranges: _CRanges, scale: float, sums: Tensor | None
) -> Float[Tensor, "b h q dv"]:
    mixed = _empty(query, value.shape[-1])
    sizes = _sizes(query, key, value, ranges)
    done = cast("Kernels", kernels()).varlen_forward(
        query.data_ptr(), key.data_ptr(), value.data_ptr(), mixed.data_ptr(), None if sums is None else sums.data_ptr(),
        _FORWARD(*sizes, *query.stride(), *key.stride(), *value.stride(), *mixed.stride()),
        ranges.sequences, ranges.gaps, scale,
    )  # fmt: skip
    return _checked(done, mixed)


def _checked(done: int, found: Tensor) -> Tensor:
    if not done:
        raise MemoryError("attention on the CPU: no memory for the keys and values of a sequence")
    return found


class _VarlenCPU(torch.autograd.Function):
    """The kernel, which keeps two numbers of each query for the gradient."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, ranges: _CRanges, scale: float
    ) -> Tensor:
        sums = torch.empty(*query.shape[:3], 2, dtype=torch.float32, device="cpu")
        mixed = _forward(query, key, value, ranges, scale, sums)
        ctx.save_for_backward(query, key, value, mixed, sums)
        ctx.ranges, ctx.scale = ranges, scale
        return mixed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, mixed, sums = ctx.saved_tensors
        grad, ranges = _dense(grad), ctx.ranges
        to_query, to_key, to_value = (_empty(x, x.shape[-1]) for x in (query, key, value))
        tensors = (query, key, value, mixed, grad, to_query, to_key, to_value)
        steps = [step for x in tensors for step in x.stride()]
        done = cast("Kernels", kernels()).varlen_backward(
            *(x.data_ptr() for x in tensors), sums.data_ptr(), _BACKWARD(*_sizes(query, key, value, ranges), *steps),
            ranges.sequences, ranges.gaps, ctx.scale,
        )  # fmt: skip
        return _checked(done, to_query), to_key, to_value, None, None
