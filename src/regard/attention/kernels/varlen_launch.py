"""Runs the kernels for variable lengths on tensors: in one launch forward and two backward, with gradients where wanted."""

from typing import Any, NamedTuple, cast

import torch
import triton
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from regard.attention.kernels.launching import Launch
from regard.attention.kernels.varlen_backward import to_key_kernel, to_query_kernel
from regard.attention.kernels.varlen_forward import forward_kernel
from regard.attention.kernels.varlen_tilings import Part, VarlenTiling, tiling

FAR = 1 << 30  # a limit of a band beyond every position
_LOG2E = 1.4426950408889634
_MOST = 1024  # launches that are remembered
_CACHE = 24 << 20  # bytes of keys and values that are at work at a time, about half of an L2 cache
_PROGRAMS = 264  # that a chip has at work at least

Counts = tuple[
    Tensor | None, int, int, bool
]  # per batch row and the step from one to the next, or one number; at the left


class Ranges(NamedTuple):
    """Which keys each query sees, first ≤ j < last, as the kernels take it.

    Of a padded batch: how many queries and keys are real, and a band. Of packed sequences in one row: first and last of
    each query, and of each key among the queries; `gaps` says that among what a range spans there may be positions that
    nobody sees or that see nothing.
    """

    tensors: tuple[Tensor | None, ...]  # counts of queries and keys, first, last, first and last of the keys
    numbers: tuple[int, ...]  # step, count and side of queries and keys; low, high
    gaps: bool = False
    longest: int | None = None  # of packed sequences

    @classmethod
    def of_batch(
        cls, queries: Counts, keys: Counts, low: int | None = None, high: int | None = None
    ) -> "Ranges":
        """Of padded rows: low ≤ j − i ≤ high, where None is no limit."""
        numbers = (
            *queries[1:],
            *keys[1:],
            -FAR if low is None else max(low, -FAR),
            FAR if high is None else min(high, FAR),
        )
        return cls((queries[0], keys[0], None, None, None, None), numbers)

    @classmethod
    def of_packed(
        cls, first: Tensor, last: Tensor, asked_first: Tensor, asked_last: Tensor, *, gaps: bool, longest: int
    ) -> "Ranges":
        """Of sequences in one row."""
        numbers = (0, first.shape[0], False, 0, asked_first.shape[0], False, -FAR, FAR)
        return cls((None, None, first, last, asked_first, asked_last), numbers, gaps, longest)


def attend_varlen(
    query: Float[Tensor, "b h q d"],
    key: Float[Tensor, "b g k d"],
    value: Float[Tensor, "b g k dv"],
    ranges: Ranges,
    *,
    scale: float,
    dropout: float = 0.0,
) -> Float[Tensor, "b h q dv"]:
    """dropout(softmax(scale · QKᵀ)) V, each query over its range of the keys; zeros where that is empty."""
    if scale < 0.0:  # the kernel takes the largest product for the largest score
        query, scale = -query, -scale
    query, key, value = _dense(query), _dense(key), _dense(value)
    seed = torch.randint(1 << 62, (1,), device=query.device) if dropout else None
    if _traced(query):
        tensors, numbers, *rest = ranges
        mixed: Tensor = _varlen(query, key, value, *tensors, seed, list(numbers), *rest, scale, dropout)[0]
        return mixed
    if torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad):
        return _Varlen.apply(query, key, value, seed, ranges, scale, dropout)  # type: ignore[no-untyped-call]
    # The same kernel, without what only a gradient needs.
    return _output(query, key, value, None, ranges, seed, scale, dropout)


def _dense(x: Tensor) -> Tensor:
    """With neighbouring numbers along the last axis."""
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def _traced(query: Tensor) -> bool:
    """Whether torch must see operators rather than launches: torch.compile, and transforms of torch.func."""
    return (
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or type(query) not in (Tensor, nn.Parameter)
    )


def forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    ranges: Ranges,
    seed: Tensor | None,
    scale: float,
    dropout: float,
    tiles: VarlenTiling | None = None,
) -> tuple[Tensor, Tensor]:
    """The output [b, h, q, dv] and the log-sum-exp [b, h, q] of each query, to the base 2."""
    lse = torch.empty(query.shape[:-1], dtype=torch.float32, device=query.device)
    return _output(query, key, value, lse, ranges, seed, scale, dropout, tiles), lse


def _output(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    lse: Tensor | None,  # where the log-sum-exp is written, if it is wanted
    ranges: Ranges,
    seed: Tensor | None,
    scale: float,
    dropout: float,
    tiles: VarlenTiling | None = None,
) -> Tensor:
    batch, heads, queries, _ = query.shape
    width = value.shape[-1]
    # In the order in which heads are joined again, so that nothing is copied for that.
    output = torch.empty_strided(
        (batch, heads, queries, width),
        (queries * heads * width, width, heads * width, 1),
        dtype=query.dtype,
        device=query.device,
    )
    launch = _launch("forward", (query, key, value, output), ranges, scale, dropout, tiles)
    launch(query, key, value, output, lse, *ranges.tensors, seed)
    return output


def backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    lse: Tensor,
    ranges: Ranges,
    seed: Tensor | None,
    scale: float,
    dropout: float,
    *,
    to_memory: bool = True,
    tiles: tuple[VarlenTiling | None, VarlenTiling | None] = (None, None),
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The gradients of query, key and value; without `to_memory` only the first."""
    grad, delta = _dense(grad), torch.empty_like(lse)
    to_query = torch.empty_like(query)
    launch = _launch(
        "to query", (query, key, value, output, grad, to_query), ranges, scale, dropout, tiles[0]
    )
    launch(query, key, value, output, grad, to_query, lse, delta, *ranges.tensors, seed)
    if not to_memory:
        return to_query, None, None
    to_key, to_value = torch.empty_like(key), torch.empty_like(value)
    launch = _launch("to key", (query, key, value, grad, to_key, to_value), ranges, scale, dropout, tiles[1])
    launch(query, key, value, grad, to_key, to_value, lse, delta, *ranges.tensors, seed)
    return to_query, to_key, to_value


_launches: dict[tuple[object, ...], Launch] = {}


def _launch(
    part: Part,
    tensors: tuple[Tensor, ...],
    ranges: Ranges,
    scale: float,
    dropout: float,
    tiles: VarlenTiling | None,
) -> Launch:
    """The launch for such tensors: made once, since there is more to find out than a host should spend on every call."""
    query, key, value = tensors[:3]
    kinds = [None if each is None else each.dtype for each in ranges.tensors]
    strides = [each.stride() for each in tensors]
    same = (
        part, query.shape, key.shape, value.shape, query.dtype, *strides,
        *kinds, ranges.numbers, ranges.gaps, ranges.longest, scale, dropout, tiles,
    )  # fmt: skip
    launch = _launches.get(same)
    if launch is None:
        if len(_launches) >= _MOST:
            _launches.clear()
        launch = _launches[same] = _made(part, tensors, ranges, scale, dropout, tiles)
    return launch


_KERNELS: dict[Part, Any] = {"forward": forward_kernel, "to query": to_query_kernel, "to key": to_key_kernel}


def _made(
    part: Part,
    tensors: tuple[Tensor, ...],
    ranges: Ranges,
    scale: float,
    dropout: float,
    tiles: VarlenTiling | None,
) -> Launch:
    query, key, value = tensors[:3]
    batch, heads, queries, width = query.shape
    kv_heads, keys, values = key.shape[1], key.shape[2], value.shape[-1]
    full, full_values = (max(16, triton.next_power_of_2(each)) for each in (width, values))
    group = heads // max(kv_heads, 1)
    roomy, precision = _chip(query.device)
    cut = tiles or tiling(
        part,
        max(full, full_values),
        queries,
        keys,
        query.dtype,
        longest=ranges.longest,
        roomy=roomy,
    )
    own = keys if part == "to key" else queries
    strips = batch * (kv_heads if part == "to key" else heads)
    count = triton.cdiv(own, cut.keys if part == "to key" else cut.queries)
    others = queries * group if part == "to key" else keys / max(group, 1)
    together = max(_CACHE // max(int(others * (width + values) * query.element_size()), 1), 1)
    together = max(1, min(max(together, triton.cdiv(_PROGRAMS, max(count, 1))), strips))
    steps = [stride for tensor in tensors for stride in tensor.stride()[:3]]
    factors = (scale * _LOG2E,) if part == "forward" else (scale * _LOG2E, scale)
    numbers = (*steps, heads, group, queries, keys, count, strips, together, *map(int, ranges.numbers))
    constants = {
        "WIDTH": width,
        "FULL": full,
        "VALUES": values,
        "FULL_VALUES": full_values,
        "M": cut.queries,
        "N": cut.keys,
        "PRECISION": precision if query.dtype == torch.float32 else "tf32",
        "DROPOUT": dropout,
        "GAPS": ranges.gaps,
    }
    return Launch(
        _KERNELS[part],
        count * strips,
        (*numbers, *factors),
        constants,
        num_warps=cut.warps,
        num_stages=cut.stages,
    )


def _chip(device: torch.device) -> tuple[bool, str]:
    """Whether it has room for large tiles, and how it multiplies float32.

    Products of float32 outside of tensor cores take a minute to compile and spill most of their registers. Three numbers
    of bfloat16 hold the 24 bits of a float32, and six of their nine products all but what rounding loses anyway.
    """
    if device.type != "cuda":
        return True, "ieee"
    chip = torch.cuda.get_device_properties(device)
    roomy = getattr(chip, "shared_memory_per_block_optin", 0) >= 160 << 10
    return roomy, "bf16x6" if chip.major >= 8 else "ieee"


class _Varlen(torch.autograd.Function):
    """The kernels, with gradients."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        seed: Tensor | None,
        ranges: Ranges,
        scale: float,
        dropout: float,
    ) -> Tensor:
        output, lse = forward(query, key, value, ranges, seed, scale, dropout)
        ctx.save_for_backward(query, key, value, output, lse, seed, *ranges.tensors)
        ctx.ranges, ctx.scale, ctx.dropout = ranges[1:], scale, dropout
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, output, lse, seed, *tensors = ctx.saved_tensors
        ranges = Ranges(tuple(tensors), *ctx.ranges)
        _, *memory = wanted = ctx.needs_input_grad[:3]
        found = backward(
            grad, query, key, value, output, lse, ranges, seed, ctx.scale, ctx.dropout, to_memory=any(memory)
        )
        grads = [each if wish else None for each, wish in zip(found, wanted, strict=True)]
        return *grads, None, None, None, None


# For torch.compile and torch.func: the same as operators.


@torch.library.custom_op("regard::varlen", mutates_args=())
def _varlen(
    query: Tensor, key: Tensor, value: Tensor,
    queries: Tensor | None, keys: Tensor | None, first: Tensor | None, last: Tensor | None,
    asked_first: Tensor | None, asked_last: Tensor | None, seed: Tensor | None,
    numbers: list[int], gaps: bool, longest: int | None, scale: float, dropout: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    ranges = Ranges((queries, keys, first, last, asked_first, asked_last), tuple(numbers), gaps, longest)
    return forward(query, key, value, ranges, seed, scale, dropout)


@torch.library.custom_op("regard::varlen_backward", mutates_args=())
def _varlen_backward(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, output: Tensor, lse: Tensor,
    queries: Tensor | None, keys: Tensor | None, first: Tensor | None, last: Tensor | None,
    asked_first: Tensor | None, asked_last: Tensor | None, seed: Tensor | None,
    numbers: list[int], gaps: bool, longest: int | None, scale: float, dropout: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    ranges = Ranges((queries, keys, first, last, asked_first, asked_last), tuple(numbers), gaps, longest)
    found = backward(grad, query, key, value, output, lse, ranges, seed, scale, dropout)
    return cast("tuple[Tensor, Tensor, Tensor]", found)


@_varlen.register_fake
def _(query, key, value, *_rest):  # type: ignore[no-untyped-def]
    batch, heads, queries, _width = query.shape
    output = query.new_empty(batch, queries, heads, value.shape[-1]).transpose(1, 2)
    return output, query.new_empty(batch, heads, queries, dtype=torch.float32)


@_varlen_backward.register_fake
def _(grad, query, key, value, *_rest):  # type: ignore[no-untyped-def]
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


def _remember(ctx, inputs, output):  # type: ignore[no-untyped-def]
    *tensors, ctx.numbers, ctx.gaps, ctx.longest, ctx.scale, ctx.dropout = inputs
    ctx.save_for_backward(*tensors[:3], *output, *tensors[3:])


def _differentiate(ctx, grad, _):  # type: ignore[no-untyped-def]
    grads = _varlen_backward(
        grad, *ctx.saved_tensors, ctx.numbers, ctx.gaps, ctx.longest, ctx.scale, ctx.dropout
    )
    return *grads, *[None] * 12


_varlen.register_autograd(_differentiate, setup_context=_remember)
