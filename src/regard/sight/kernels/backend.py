"""Whether evidence of a call is computed by Triton kernels or over strips."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from regard.attention.call import Call
from regard.attention.kernels.triton_available import TRITON_INSTALLED, TRITON_INTERPRETED
from regard.sight.kernels.kernel_mask import obstacle


@dataclass(frozen=True, kw_only=True)
class Backend:
    """What computes the evidence of a call, and why; made to be printed."""

    way: Literal["kernels", "strips"]
    why: str

    def __str__(self) -> str:
        return f"{self.way}: {self.why}"


def choose_backend(call: Call) -> Backend:
    """What computes the evidence of a call. Depends on the call and on what is installed, on nothing else."""
    if not within_reach(call.query):
        return Backend(way="strips", why=f"the call is on the {call.query.device.type}, kernels run on CUDA")
    if not TRITON_INSTALLED:
        return Backend(
            way="strips", why="Triton is not installed (the extra `triton`, or torch's CUDA build)"
        )
    in_the_way = obstacle(call)
    if in_the_way is not None:
        return Backend(way="strips", why=in_the_way)
    return Backend(way="kernels", why="scores are made a tile at a time and never leave the chip")


def within_reach(query: Tensor) -> bool:
    """Whether kernels can run on the device of this tensor."""
    return query.is_cuda or TRITON_INTERPRETED
