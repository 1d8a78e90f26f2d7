"""Which kernel computes a call of attention. `explain` prints it, with the reason."""

from typing import Literal, NamedTuple

import torch

from regard.attention.call import Call
from regard.attention.kernels.additive_fused import obstacle
from regard.attention.kernels.torch_kernels import MAX_QUERIES, block_of
from regard.attention.kernels.triton_available import TRITON_INSTALLED
from regard.attention.kernels.varlen import varlen_refusal
from regard.attention.kernels.varlen_cpu import varlen_cpu_refusal
from regard.attention.reach import Reach
from regard.attention.static_cache import StaticReach

_SHORT = 128  # keys

MaskForm = Literal[
    "nothing", "causal flag", "band", "matrix", "band and matrix", "ranges", "lengths", "lengths and band"
]


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
        "decode",
    ]
    mask: MaskForm
    ruled_out: str | None = None


def choose(call: Call, reach: Reach | None, *, dropout: float = 0.0) -> Choice:
    """The kernel for a call. Nothing else decides: not training, not gradients, not who is watching."""
    static = isinstance(reach, StaticReach)
    if static and decode_kernel_fits(call):
        return Choice(kernel="decode", mask="matrix")
    mask: MaskForm = "nothing" if reach is None or reach.everything else "matrix"
    flag = reach is not None and reach.triangular and call.bias is None
    if not flag and _small(call, reach):
        quicker = f"{call.extent.queries} queries a head on the CPU, where other kernels are slower"
        return Choice(kernel="small queries", mask=mask, ruled_out=quicker)
    ruled_out: str | None = None
    if not static and (call.query.is_cpu or _varied(reach)):
        ruled_out = _varlen_refusal(call, reach, dropout)
        if ruled_out is None:
            return Choice(kernel="varlen", mask=_ranges_told(reach))
        if reach is not None and reach.packs is not None:
            return Choice(kernel="rows", mask="lengths", ruled_out=ruled_out)
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
        return Choice(kernel="fused", mask="causal flag" if flag else mask, ruled_out=ruled_out)
    return Choice(kernel="written", mask=mask, ruled_out=ruled_out)


_WITHOUT = "fused kernels give a bias no gradient, but for torch's for CUDA in at most 32 bits"


def _bias_learns_on_gpu(call: Call) -> bool:
    """Whether torch's memory-efficient kernel, which gives a bias its gradient, can compute the call."""
    query = call.query
    return query.is_cuda and query.dtype != torch.float64 and 0 not in (*query.shape, *call.key.shape)


def _varied(reach: Reach | None) -> bool:
    """Whether queries see different ranges of the keys, which is more than the flag of a fused kernel says."""
    if reach is None:
        return False
    padded = reach.asking is not None or reach.asked is not None or reach.rest is not None
    return padded or reach.packs is not None or not (reach.everything or reach.triangular)


def _varlen_refusal(call: Call, reach: Reach | None, dropout: float) -> str | None:
    """Why the kernel for variable lengths cannot compute a call; None if it can."""
    if call.query.is_cpu or reach is None:
        return varlen_cpu_refusal(call, reach, dropout)
    return varlen_refusal(call, reach)


def _ranges_told(reach: Reach | None) -> MaskForm:
    if reach is None:
        return "nothing"
    if reach.packs is not None:
        return "ranges"
    banded = reach.bounded != (None, None)
    if reach.asking is reach.asked is None:
        return "band" if banded else "nothing"
    return "lengths and band" if banded else "lengths"


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


def _small(call: Call, reach: Reach | None) -> bool:
    """Whether the call is a step of decoding on the CPU, or as small as one. A traced graph is for every size."""
    query = call.query
    return (
        query.is_cpu
        and call.score.dot_product
        and (reach is None or reach.packs is None)
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
