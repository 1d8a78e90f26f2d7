"""Vectors of positions that the figure `positions` compares with those of `regard.layers`."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

Vectors = Callable[[Tensor], Tensor]  # from position numbers [n] to vectors [n, d]
_UPDATES, _TEXTS, _RATE = 300, 32, 0.05  # of a table that is trained


def naive_ways(count: int, words: Tensor) -> dict[str, Tensor]:
    """The vectors of positions 0 to n − 1 in the three ways that come to mind first."""
    counted = torch.arange(count, dtype=torch.float64)[:, None]
    return {"[i]": counted, "i / n": counted / count, "x + i": words + counted}


def fourier_series(terms: int, count: int, decay: float, *, first: int = 0) -> Vectors:
    """φ(i) = √a_k [cos ω_k i, sin ω_k i] for `terms` frequencies ω_k = π k / T, such that φ(i)·φ(j) = Σ a_k cos ω_k (i − j).

    a_k are the Fourier coefficients of exp(−λ δ²) repeated every 2T: √(π/λ) / T · exp(−ω_k² / 4λ), and half of that for
    k = 0. All are positive, so they have square roots. T is such that the repetition is below 10⁻⁶ up to distance n − 1.
    A series that begins at `first` = 1 lacks its mean.
    """
    half = (count - 1 + math.sqrt(14 / decay)) / 2  # e⁻¹⁴ < 10⁻⁶
    numbers = torch.arange(first, first + terms, dtype=torch.float64)
    frequencies = math.pi * numbers / half
    sizes = math.sqrt(math.pi / decay) / half * torch.exp(-(frequencies**2) / (4 * decay))
    sizes = torch.where(numbers == 0, sizes / 2, sizes)

    def vectors(positions: Tensor) -> Tensor:
        angle = positions[:, None] * frequencies
        return torch.cat([angle.cos(), angle.sin()], dim=-1) * sizes.sqrt().repeat(2)

    return vectors


def largest_error(vectors: Vectors, count: int, decay: float) -> float:
    """The largest |φ(0)·φ(δ) − exp(−λ δ²)| over the distances δ from 0 to n − 1."""
    at = torch.arange(count)
    found = vectors(at).double()
    return float(f"{(found @ found[0] - torch.exp(-decay * at.double() ** 2)).abs().max():.4g}")


def trained_table(table: Tensor, generator: torch.Generator) -> Tensor:
    """A table trained so that softmax(φ(i)·φ(j) / √d), over random numbers, averages each with its two neighbours."""
    vectors = table.double().clone().requires_grad_()
    count, width = vectors.shape
    at = torch.arange(count)
    beside = ((at[:, None] - at).abs() <= 1).double()
    wanted = beside / beside.sum(1, keepdim=True)
    optimizer = torch.optim.Adam([vectors], lr=_RATE)
    for _ in range(_UPDATES):
        values = torch.randn(count, _TEXTS, generator=generator, dtype=torch.float64)
        weights = torch.softmax(vectors @ vectors.T / math.sqrt(width), dim=-1)
        loss = ((weights - wanted) @ values).square().mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return vectors.detach()
