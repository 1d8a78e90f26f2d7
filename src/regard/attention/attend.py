"""Attention, computed well: zero what no query may look at, choose a kernel (`choose`), zero queries that look at nothing.

`attend_beam` and `attend_static` do so over cached keys, and show observers the same call without a cache.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, NamedTuple, overload

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.biases import Bias
from regard.attention.call import Call, shared_seen, zeroed
from regard.attention.dispatch import dispatch, observed, observers
from regard.attention.kernels.additive import scores_of
from regard.attention.kernels.additive_fused import fused_additive, obstacle
from regard.attention.kernels.flash_cpu import flash_padded, takes_padding
from regard.attention.kernels.torch_kernels import (
    MAX_QUERIES,
    block_of,
    fused,
    in_blocks,
    small_queries,
    written,
)
from regard.attention.kernels.triton_available import TRITON_INSTALLED
from regard.attention.kernels.varlen import in_one_row, in_rows, varlen, varlen_refusal
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
    if choice.kernel in ("varlen", "flash padded"):  # no NaN they need not read, zeros where nothing is seen
        if call.score.maps and not sanitised:  # but what maps queries and keys for it reads all of them
            query, key = zeroed(query, reach.looking()), zeroed(key, shared_seen(reach.seen(), key))
        return _run(choice, call, query, key, value, reach, dropout, sanitised=sanitised)
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
    choice: "Choice",
    call: Call,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    reach: Reach | None,
    dropout: float,
    sanitised: bool = False,
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
    if reach is not None and choice.kernel == "flash padded":
        return flash_padded(query, key, value, reach, scale=scale, sanitised=sanitised)
    if reach is not None and choice.kernel == "varlen":
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


_SHORT = 128  # keys


class Choice(NamedTuple):
    """Which kernel computes a call, the form in which it gets the mask, and what ruled out a fused one."""

    kernel: Literal[
        "fused",
        "fused additive",
        "small queries",
        "blocks",
        "written",
        "varlen",
        "rows",
        "flash padded",
        "decode",
    ]
    mask: Literal[
        "nothing", "causal flag", "band", "matrix", "band and matrix", "ranges", "lengths", "lengths and band"
    ]
    ruled_out: str | None = None


def choose(call: Call, reach: Reach | None, *, dropout: float = 0.0) -> Choice:
    """The kernel for a call. Nothing else decides: not training, not gradients, not who is watching."""
    ruled_out: str | None = None
    if isinstance(reach, StaticReach):
        if decode_kernel_fits(call):
            return Choice(kernel="decode", mask="matrix")
    elif reach is not None and (reach.packs is not None or (call.query.is_cuda and _varied(reach))):
        ruled_out = varlen_refusal(call, reach)
        if ruled_out is None:
            return Choice(kernel="varlen", mask=_ranges_told(reach))
        if reach.packs is not None:
            return Choice(kernel="rows", mask="lengths", ruled_out=ruled_out)
    mask: Literal["matrix", "nothing"] = "nothing" if reach is None or reach.everything else "matrix"
    additive = not call.score.dot_product
    unable = obstacle(call.query.device, call.query.dtype) if additive else None
    if unable is not None:
        ruled_out = f"the additive score is no dot product, and {unable}"
    elif call.bias is not None and call.bias.learned and (additive or not _bias_learns_on_gpu(call)):
        ruled_out = f"the bias {type(call.bias).__name__} is learned, and {_WITHOUT}"
    elif additive:
        return Choice(kernel="fused additive", mask="nothing" if reach is None else reach.form)
    elif reach is not None and _local(call, reach):
        return Choice(kernel="blocks", mask=reach.form)
    elif _short_on_cpu(call):
        ruled_out = "in 16 bits on a CPU, short sequences are faster with their weights in memory"
    else:
        if reach is not None and not dropout and takes_padding(call, reach):
            return Choice(kernel="flash padded", mask=_ranges_told(reach))
        flag = reach is not None and reach.triangular and call.bias is None
        if not flag and _small(call):
            quicker = f"{call.extent.queries} queries a head on the CPU, where torch's fused kernel is slower"
            return Choice(kernel="small queries", mask=mask, ruled_out=quicker)
        return Choice(kernel="fused", mask="causal flag" if flag else mask, ruled_out=ruled_out)
    return Choice(kernel="written", mask=mask, ruled_out=ruled_out)


_WITHOUT = "fused kernels give a bias no gradient, but for torch's for CUDA in at most 32 bits"


def _bias_learns_on_gpu(call: Call) -> bool:
    """Whether torch's memory-efficient kernel, which gives a bias its gradient, can compute the call."""
    query = call.query
    return query.is_cuda and query.dtype != torch.float64 and 0 not in (*query.shape, *call.key.shape)


def _varied(reach: Reach) -> bool:
    """Whether queries see different ranges of the keys, which is more than the flag of a fused kernel says."""
    padded = reach.asking is not None or reach.asked is not None or reach.rest is not None
    return padded or not (reach.everything or reach.triangular)


def _ranges_told(reach: Reach) -> Literal["ranges", "lengths", "band", "lengths and band"]:
    if reach.packs is not None:
        return "ranges"
    if reach.asking is reach.asked is None:
        return "band"
    return "lengths" if reach.bounded == (None, None) else "lengths and band"


def _local(call: Call, reach: Reach) -> bool:
    """Whether every query sees so small a neighbourhood that going block by block is less than half of the work.

    A traced graph is for every size.
    """
    low, high = reach.bounded
    if low is None or high is None or torch.compiler.is_compiling():
        return False
    size, plain = block_of(low, high), call.bias is None and reach.rest is None
    return plain and call.extent.queries > size and 2 * (size + high - low) <= call.extent.keys


def decode_kernel_fits(call: Call) -> bool:
    """Whether the kernel for a step of decoding on a GPU can compute the call."""
    query = call.query
    return (
        TRITON_INSTALLED
        and query.device.type == "cuda"
        and query.dtype != torch.float64
        and query.ndim == 4
        and query.shape[-2] <= 16
        and call.bias is None
        and call.score.dot_product
        and query.stride(-1) == 1 == call.key.stride(-1)
    )


def _small(call: Call) -> bool:
    """Whether the call is a step of decoding on the CPU, or as small as one. A traced graph is for every size."""
    query = call.query
    return (
        query.is_cpu
        and not torch.compiler.is_compiling()
        and query.dtype == torch.float32
        and 0 < query.shape[-2] <= MAX_QUERIES
        and call.key.shape[-2] > 0
        and call.bias is None
        and query.shape[:-2] == call.key.shape[:-2]
    )


def _short_on_cpu(call: Call) -> bool:
    """Whether torch's kernel for the CPU, whose backward pass in 16 bits is slow, would lose to two plain products."""
    return call.query.is_cpu and call.query.dtype.itemsize == 2 and call.key.shape[-2] <= _SHORT
