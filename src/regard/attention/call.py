"""One attention call, as a value."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Bool, Float
from torch import Tensor

from regard.attention.biases import Bias, TensorBias
from regard.attention.masks import Mask, checked_mask
from regard.attention.reach import Extent, Reach
from regard.attention.scores import ScaledDot, Score
from regard.data.given import instance, number, shown, vectors
from regard.errors import RegardError

_SCALED_DOT = ScaledDot()


@dataclass(frozen=True, eq=False)
class Call:
    """One attention call as a value: queries, keys, which pairs the mask allows, and how they are scored.

    `query` is [..., q, dq] and `key` [..., k, dk]. Their batch axes are equal; only the last of them, the heads,
    may have fewer keys than queries, as in grouped attention. The weights of the call are

        softmax(scale · score(query, key) + bias), over the keys that mask allows.
    """

    query: Float[Tensor, "*batch q dq"]
    key: Float[Tensor, "*kv_batch k dk"]
    mask: Mask | None = None
    bias: Bias | None = None
    score: Score = field(default_factory=lambda: _SCALED_DOT)  # torch.compile wants it called, not held
    scale: float = 1.0

    def __post_init__(self) -> None:
        query, key = self.query, self.key
        if not (isinstance(query, Tensor) and isinstance(key, Tensor) and query.is_floating_point()):
            query, key = vectors("query", query), vectors("key", key)  # which they are, if they are NumPy's
            object.__setattr__(self, "query", query)
            object.__setattr__(self, "key", key)
        if self.mask is not None:
            checked_mask(self.mask)
        if self.bias is not None and not isinstance(self.bias, Bias):
            raise RegardError(
                f"bias={shown(self.bias)}: give a bias, such as TensorBias(tensor) or ALiBi(heads)"
            )
        if self.score is not _SCALED_DOT:
            instance("score", self.score, Score, "give a score, such as ScaledDot() or Additive(…)")
        if type(self.scale) is not float:
            number("scale", self.scale)
        asked, there = query.shape, key.shape
        if len(asked) < 2 or len(there) != len(asked):
            raise RegardError(
                f"query {tuple(query.shape)} and key {tuple(key.shape)}: both are [..., positions, width], "
                "with equally many axes"
            )
        if query.dtype != key.dtype or query.device != key.device:
            raise RegardError(
                f"query is {query.dtype} on {query.device}, key {key.dtype} on {key.device}: make them the same"
            )
        if not _batch_axes_fit(asked[:-2], there[:-2]):
            raise RegardError(
                f"query {tuple(query.shape)} and key {tuple(key.shape)}: batch axes must be equal, "
                "but for the heads (axis −3), where those of the key must divide those of the query"
            )
        self.score.check(asked[-1], there[-1])

    @classmethod
    def of(
        cls,
        query: Tensor,
        key: Tensor,
        mask: Mask | None = None,
        *,
        score: Score | None = None,
        bias: Bias | Tensor | None = None,
        scale: float = 1.0,
    ) -> "Call":
        """A call from its parts, where None is the scaled dot product and a bias may be a bare tensor."""
        if bias is not None and isinstance(bias, Tensor | np.ndarray):
            bias = TensorBias(bias)
        return cls(query, key, mask, bias, _SCALED_DOT if score is None else score, scale)

    @property
    def extent(self) -> Extent:
        """How many queries and keys."""
        return Extent(queries=self.query.shape[-2], keys=self.key.shape[-2], device=self.query.device)

    @property
    def groups(self) -> int:
        """How many query heads share a key head."""
        asked, there = self.query.shape, self.key.shape
        return 1 if asked[:-2] == there[:-2] else asked[-3] // there[-3]

    def reach(self, masked: Reach | None = None) -> Reach | None:
        """What mask and bias allow, in the cheapest form, with the batch axes of the call; None for everything.

        `masked` is what the mask alone allows, where that is known already.
        """
        if self.bias is None and (masked is not None or self.mask is None):
            return masked
        extent, axes = self.extent, self.query.ndim - 2
        if masked is None and self.mask is not None:
            masked = self.mask.reach_over(extent, axes)
        if self.bias is None:
            return masked
        if masked is not None and not self.bias.relative:
            masked = masked.spelt()  # a bias of positions means those in the row
        forbidden = self.bias.reach(extent)
        if forbidden is None:
            return masked
        # The axes of a bias are lined up like any tensor's, at the right.
        rest = forbidden.rest
        if rest is not None and rest.ndim < axes + 2:
            forbidden = replace(forbidden, rest=rest.reshape(*([1] * (axes + 2 - rest.ndim)), *rest.shape))
        return forbidden if masked is None else masked & forbidden

    def sanitised(self, reach: Reach | None) -> "Call":
        """The call with zeros in queries that look at nothing and in keys that no query may look at.

        What is masked gets multiplied by zero, forward or backward, and 0 · NaN is NaN: so it must not be there.
        """
        looking, seen = (None, None) if reach is None else (reach.looking(), reach.seen())
        if looking is None and seen is None:
            return self
        key = zeroed(self.key, shared_seen(seen, self.key))
        return replace(self, query=zeroed(self.query, looking), key=key)

    def allowed(self) -> Bool[Tensor, "... q k"] | None:
        """The mask as a matrix, with the batch axes of the call; None for everything."""
        if self.mask is None:
            return None
        extent = self.extent
        matrix = self.mask.dense(extent.queries, extent.keys, device=extent.device)
        return Reach(extent=extent, rest=matrix).over(self.query.ndim - 2).rest

    def biases(self) -> Float[Tensor, "... q k"] | None:
        """The bias as a matrix, in the dtype of the query."""
        if self.bias is None:
            return None
        extent = self.extent
        matrix = self.bias.block(extent.rows, extent.columns, extent).to(self.query)
        axes = self.query.ndim
        if isinstance(self.bias, TensorBias) and matrix.ndim not in (2, axes):
            raise RegardError(
                f"a bias of shape {tuple(self.bias.tensor.shape)} for a call of shape {tuple(self.query.shape)}: "
                f"give it 2 or {axes} axes, of size 1 where nothing changes"
            )
        return matrix


def _batch_axes_fit(batch: Sequence[int], kv_batch: Sequence[int]) -> bool:
    if batch == kv_batch:
        return True
    return batch[:-1] == kv_batch[:-1] and kv_batch[-1] != 0 and batch[-1] % kv_batch[-1] == 0


def shared_seen(
    seen: Bool[Tensor, "... k"] | None, key: Float[Tensor, "*kv k d"]
) -> Bool[Tensor, "... k"] | None:
    """Which keys are seen by some head, where several heads of the query share one of the key."""
    if seen is None or seen.ndim == 1 or seen.shape[-2] in (1, key.shape[-3]):
        return seen
    return rearrange(seen, "... (g h) k -> ... g h k", g=key.shape[-3]).any(-2)


def zeroed(
    rows: Float[Tensor, "*batch n d"], used: Bool[Tensor, "... #n"] | None, zero: Tensor | float = 0.0
) -> Float[Tensor, "*batch n d"]:
    """Queries, keys, values or outputs with zeros in the positions that are not used; None: all are.

    `zero` is for those who ask several times: torch makes a tensor of a number, on a GPU with a kernel.
    """
    return rows if used is None else torch.where(used.unsqueeze(-1), rows, zero)


def by_autocast(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """In the dtype that autocast gives torch's attention, which does not reach kernels that are called by name."""
    if not torch.is_autocast_enabled(query.device.type):
        return query, key, value
    dtype = torch.get_autocast_dtype(query.device.type)
    return query.to(dtype), key.to(dtype), value.to(dtype)
