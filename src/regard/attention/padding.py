"""Padding, described by how many positions are real."""

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.attention.batch_axes import pad_axes, refuse_axes


class Real:
    """The real positions of padded sequences, told as their number: the first ones, or the last where padding is left.

    Kernels that take lengths need no more; the flags are computed for others, on first use.
    """

    def __init__(
        self, count: int | Tensor, size: int, padded: str, device: torch.device, axes: int | None = None
    ) -> None:
        self.count, self.size, self.padded, self.device = count, size, padded, device
        self._axes = axes  # batch axes of the flags; None: those of the count
        self._flags: Tensor | None = None

    def over(self, batch_axes: int) -> "Real":
        """The same with its batch axes spread over those of a call."""
        if isinstance(self.count, int):
            return self
        if self.count.ndim > batch_axes:
            refuse_axes((*self.count.shape, self.size), self.count.ndim, batch_axes)
        return Real(self.count, self.size, self.padded, self.device, batch_axes)

    def flags(self) -> Bool[Tensor, "... n"]:
        """Which positions are real."""
        if self._flags is None:
            self._flags = self.at(torch.arange(self.size, device=self.device))
        return self._flags

    def at(self, positions: Int[Tensor, " p"]) -> Bool[Tensor, "... p"]:
        """Which of these positions are real."""
        count = self.count
        if isinstance(count, Tensor):
            count = pad_axes(count.to(positions.device), self._axes or 0, tail=0)[..., None]
        return positions < count if self.padded == "right" else positions >= self.size - count
