"""Which kernel computes a call, and why."""

from dataclasses import dataclass
from typing import Literal

import torch

from regard.attention.call import Call
from regard.attention.kernels.additive_fused import obstacle
from regard.attention.kernels.banded import block_of
from regard.attention.kernels.small_queries import MAX_QUERIES
from regard.attention.kernels.triton_available import TRITON_INSTALLED
from regard.attention.kernels.varlen import intervals_refusal
from regard.attention.reach import Reach
from regard.attention.scores import Additive
from regard.attention.static_cache import StaticReach

_SHORT = 128  # keys


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which kernel computes a call, the form in which it gets the mask, and what ruled out a fused one."""

    kernel: Literal[
        "fused", "fused additive", "small queries", "blocks", "written", "intervals", "rows", "decode"
    ]
    mask: Literal["nothing", "causal flag", "band", "matrix", "band and matrix", "stretches", "lengths"]
    ruled_out: str | None = None


def choose(call: Call, reach: Reach | None) -> Choice:
    """The kernel for a call. Nothing decides but the call: not training, not gradients, not who is watching."""
    if reach is not None and reach.packs is not None:
        ruled_out = intervals_refusal(call, reach)
        if ruled_out is None:
            return Choice(kernel="intervals", mask="stretches")
        return Choice(kernel="rows", mask="lengths", ruled_out=ruled_out)
    if isinstance(reach, StaticReach) and decode_kernel_fits(call):
        return Choice(kernel="decode", mask="matrix")
    bounded = reach is not None and not reach.everything
    unable = obstacle(call.query.device, call.query.dtype) if isinstance(call.score, Additive) else None
    if unable is not None:
        ruled_out = f"the additive score is no dot product, and {unable}"
    elif call.bias is not None and call.bias.learned:
        ruled_out = (
            f"the bias {type(call.bias).__name__} is learned, and fused kernels give a bias no gradient"
        )
    elif isinstance(call.score, Additive):
        return Choice(kernel="fused additive", mask="nothing" if reach is None else reach.form)
    elif reach is not None and _local(call, reach):
        return Choice(kernel="blocks", mask=reach.form)
    elif _short_on_cpu(call):
        ruled_out = "in 16 bits on a CPU, short sequences are faster with their weights in memory"
    else:
        flag = reach is not None and reach.triangular and call.bias is None
        if not flag and _small(call):
            quicker = f"{call.extent.queries} queries a head on the CPU, where torch's fused kernel is slower"
            return Choice(kernel="small queries", mask="matrix" if bounded else "nothing", ruled_out=quicker)
        return Choice(kernel="fused", mask="causal flag" if flag else "matrix" if bounded else "nothing")
    return Choice(kernel="written", mask="matrix" if bounded else "nothing", ruled_out=ruled_out)


def _local(call: Call, reach: Reach) -> bool:
    """Whether every query sees so small a neighbourhood that going block by block is less than half of the work.

    A traced graph is for every size.
    """
    low, high = reach.bounded
    if low is None or high is None or call.bias is not None or reach.rest is not None:
        return False
    if torch.compiler.is_compiling():
        return False
    size = block_of(low, high)
    return call.extent.queries > size and 2 * (size + high - low) <= call.extent.keys


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
        and not isinstance(call.score, Additive)
        and query.stride(-1) == 1 == call.key.stride(-1)
    )


def _small(call: Call) -> bool:
    """Whether the call is a step of decoding on the CPU, or as small as one. A traced graph is for every size."""
    query = call.query
    return (
        not torch.compiler.is_compiling()
        and query.device.type == "cpu"
        and query.dtype == torch.float32
        and 0 < query.shape[-2] <= MAX_QUERIES
        and call.key.shape[-2] > 0
        and call.bias is None
        and query.shape[:-2] == call.key.shape[:-2]
    )


def _short_on_cpu(call: Call) -> bool:
    """Whether torch's kernel for the CPU, whose backward pass in 16 bits is slow, would lose to two plain products."""
    return call.query.device.type == "cpu" and call.query.dtype.itemsize == 2 and call.extent.keys <= _SHORT
