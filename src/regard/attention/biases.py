"""Biases: what is added to a score, after the scale, depending on the positions of query and key.

`weights = softmax(scale · score(q, k) + bias)`. A bias that says "−∞" forbids the pair, as a mask would.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.reach import Extent, Reach
from regard.data.given import shown, whole
from regard.errors import RegardError


class Bias(ABC):
    """Something added to the scores. `learned` says that it needs a gradient, which fused kernels do not give."""

    @property
    def learned(self) -> bool:
        """Whether training changes it."""
        return False

    @property
    def relative(self) -> bool:
        """Whether it depends on j − i alone: on the distance of two positions, not on the positions themselves."""
        return False

    @abstractmethod
    def block(
        self, rows: Int[Tensor, " r"], columns: Int[Tensor, " c"], extent: Extent
    ) -> Float[Tensor, "*batch r c"]:
        """The rectangle of these query and key positions, out of a whole of the given extent."""

    def reach(self, extent: Extent) -> Reach | None:
        """The pairs it does not forbid; None when it forbids nothing."""
        return None

    def shifted(self, offset: int) -> "Bias":
        """The same, for queries of which the first has position `offset` among the keys (decoding)."""
        return self if offset == 0 else _Shifted(self, offset)

    def dense(
        self, queries: int, keys: int, *, device: torch.device | str | None = None
    ) -> Float[Tensor, "*batch {queries} {keys}"]:
        """The whole matrix."""
        extent = Extent(queries=queries, keys=keys, device=torch.device(device or torch.get_default_device()))
        return self.block(extent.rows, extent.columns, extent)


@dataclass(frozen=True)
class ALiBi(Bias):
    """−m·|i − j|, with a slope m a head: 2^(−8/n), 2^(−16/n), … for n heads (Press 2022).

    For a number of heads that is no power of two, the paper's own code takes the slopes of the power below and
    fills up with every other slope of the power above; so does this.
    """

    heads: int

    def __post_init__(self) -> None:
        whole("ALiBi(heads)", self.heads, least=1)

    @property
    def relative(self) -> bool:
        """Yes."""
        return True

    def slopes(self, device: torch.device | None = None) -> Float[Tensor, " heads"]:
        """The slope of each head."""
        power = 1 << (self.heads.bit_length() - 1)
        head = torch.arange(self.heads, device=device)
        exponent = torch.where(head < power, 8 * (head + 1), 4 * (2 * (head - power) + 1)) / power
        return torch.exp2(-exponent)

    def block(self, rows: Tensor, columns: Tensor, extent: Extent) -> Tensor:
        """−m·|i − j|, [heads, rows, columns]."""
        distance = (columns - rows[:, None]).abs()
        return self.slopes(rows.device)[:, None, None] * -distance


class RelativeBuckets(nn.Module, Bias):
    """A learned number for each head and each bucket of j − i; buckets widen with distance (Raffel 2020, 2.1).

    Half of the buckets are for keys ahead when `two_way`. In each direction the first half of the buckets are
    single distances, the rest grow logarithmically up to `far`, and everything farther shares the last.
    """

    def __init__(self, heads: int, *, buckets: int = 32, far: int = 128, two_way: bool = True) -> None:
        super().__init__()
        for name, given in {"heads": heads, "buckets": buckets, "far": far}.items():
            whole(name, given, least=1)
        if buckets < (4 if two_way else 2) or far <= buckets // (4 if two_way else 2):
            raise RegardError(
                f"RelativeBuckets(buckets={buckets}, far={far}): far must lie beyond the exact buckets"
            )
        self.buckets, self.far, self.two_way = buckets, far, two_way
        self.table = nn.Parameter(torch.randn(buckets, heads) / math.sqrt(heads))

    @property
    def learned(self) -> bool:
        """Yes, unless the table is frozen."""
        return self.table.requires_grad

    @property
    def relative(self) -> bool:
        """Yes."""
        return True

    def bucket(self, ahead: Int[Tensor, "*any"]) -> Int[Tensor, "*any"]:
        """The bucket of the distance j − i."""
        each = self.buckets // 2 if self.two_way else self.buckets
        start = (ahead > 0).long() * each if self.two_way else torch.zeros_like(ahead)
        distance = ahead.abs() if self.two_way else (-ahead).clamp_min(0)
        exact = each // 2
        growth = (distance.clamp_min(1).float() / exact).log() / math.log(self.far / exact)
        wide = (exact + (growth * (each - exact)).long()).clamp_max(each - 1)
        return start + torch.where(distance < exact, distance, wide)

    def block(self, rows: Tensor, columns: Tensor, extent: Extent) -> Tensor:
        """table[bucket(j − i)], [heads, rows, columns]."""
        return self.table[self.bucket(columns - rows[:, None])].permute(2, 0, 1)


@dataclass(frozen=True, eq=False)
class TensorBias(Bias):
    """Any tensor [..., q, k]. Its batch axes are all of those of the call, or none."""

    tensor: Float[Tensor, "*batch q k"]

    def __post_init__(self) -> None:
        tensor = self.tensor
        if isinstance(tensor, np.ndarray) and tensor.dtype.kind == "f":
            object.__setattr__(self, "tensor", torch.from_numpy(tensor))
        elif not isinstance(tensor, Tensor):
            raise RegardError(f"bias={shown(tensor)}: a bias is a float tensor [..., queries, keys]")
        if self.tensor.ndim < 2 or not self.tensor.dtype.is_floating_point:
            raise RegardError(
                f"a bias is a float tensor [..., queries, keys], not {self.tensor.dtype} of shape "
                f"{tuple(self.tensor.shape)}; a bool tensor is a mask: keep(…)"
            )

    @property
    def learned(self) -> bool:
        """Whether training changes it."""
        return self.tensor.requires_grad

    def block(self, rows: Tensor, columns: Tensor, extent: Extent) -> Tensor:
        """The rectangle, cut out."""
        queries, keys = self.tensor.shape[-2:]
        if queries not in (1, extent.queries) or keys not in (1, extent.keys):
            raise RegardError(
                f"a bias for {queries} queries and {keys} keys, a call with {extent.queries} and {extent.keys}"
            )
        cut = self.tensor.expand(*self.tensor.shape[:-2], extent.queries, extent.keys)
        return cut.index_select(-2, rows).index_select(-1, columns)

    def reach(self, extent: Extent) -> Reach:
        """All pairs but those at −∞."""
        allowed = self.block(extent.rows, extent.columns, extent) != -math.inf
        return Reach(extent=extent, rest=allowed)


@dataclass(frozen=True, eq=False)
class _Shifted(Bias):
    bias: Bias
    offset: int

    @property
    def learned(self) -> bool:
        return self.bias.learned

    def block(self, rows: Tensor, columns: Tensor, extent: Extent) -> Tensor:
        return self.bias.block(rows + self.offset, columns, extent)
