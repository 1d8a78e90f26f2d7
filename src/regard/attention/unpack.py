"""Packed sequences taken out of their row: each into a row of its own, filled up with zeros, and back."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class RowGroups:
    """Groups of rows of one length each, laid end to end, and the slot of every packed position among them.

    A slot is taken once, so neither way adds anything up: both passes are copies.
    """

    slots: Int[Tensor, " size"]
    real: Bool[Tensor, " size"] | None  # None: there is no filling
    shapes: Sequence[tuple[int, int]]  # rows of each group, and how long they are

    @classmethod
    def of(
        cls,
        owners: Int[Tensor, " size"],
        places: Int[Tensor, " size"],
        real: Bool[Tensor, " size"] | None,
        groups: Sequence[Sequence[int]],
        longest: Sequence[int],
    ) -> "RowGroups":
        """These groups of sequences, in rows of these lengths; which sequence each position is of, and its place in it."""
        shapes = [(len(group), width) for group, width in zip(groups, longest, strict=True)]
        total = sum(rows * width for rows, width in shapes)
        first = [0] * (sum(map(len, groups)) + 1)
        start = 0
        for group, width in zip(groups, longest, strict=True):
            for sequence in group:
                first[sequence] = start
                start += width
        first[-1] = total  # of filling: one slot beyond all
        begins = torch.tensor(first, device=owners.device)
        return cls(begins[owners] + places, real, shapes)

    @property
    def count(self) -> int:
        """How many slots there are."""
        return sum(rows * width for rows, width in self.shapes)

    def spread(self, x: Float[Tensor, "size *d"]) -> list[Tensor]:
        """The groups, [rows, length, …] each."""
        flat: Tensor = _Scatter.apply(x, self)  # type: ignore[no-untyped-call]
        parts = torch.split(flat, [rows * width for rows, width in self.shapes])
        return [part.reshape(*shape, *part.shape[1:]) for part, shape in zip(parts, self.shapes, strict=True)]

    def gathered(self, groups: Sequence[Tensor]) -> Tensor:
        """The positions in one row again; zeros for filling."""
        flat = [group.flatten(0, 1) for group in groups]
        whole = flat[0] if len(flat) == 1 else torch.cat(flat)
        found: Tensor = _Gather.apply(whole, self)  # type: ignore[no-untyped-call]
        return found


class _Scatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, row_groups: RowGroups) -> Tensor:  # type: ignore[no-untyped-def]
        ctx.row_groups = row_groups
        return _scattered(x, row_groups)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None]:  # type: ignore[no-untyped-def]
        return _gathered(grad, ctx.row_groups), None


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, row_groups: RowGroups) -> Tensor:  # type: ignore[no-untyped-def]
        ctx.row_groups = row_groups
        return _gathered(x, row_groups)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None]:  # type: ignore[no-untyped-def]
        return _scattered(grad, ctx.row_groups), None


def _scattered(x: Tensor, row_groups: RowGroups) -> Tensor:
    filled = row_groups.real is not None
    spread = x.new_zeros(row_groups.count + filled, *x.shape[1:])
    return spread.index_copy_(0, row_groups.slots, x)[: row_groups.count]


def _gathered(x: Tensor, row_groups: RowGroups) -> Tensor:
    if row_groups.real is None:
        return x.index_select(0, row_groups.slots)
    found = x.index_select(0, row_groups.slots.clamp_max(max(row_groups.count - 1, 0)))
    return torch.where(row_groups.real.reshape(-1, *[1] * (x.ndim - 1)), found, 0.0)
