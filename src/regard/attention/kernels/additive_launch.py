"""Runs the Triton kernels of additive attention on tensors, forward and backward."""

from dataclasses import dataclass
from typing import Any

import torch
import triton  # type: ignore[import-untyped,import-not-found,unused-ignore]
from torch import Tensor

from regard.attention.kernels.additive_backward import gradient_kernel, slopes_kernel
from regard.attention.kernels.additive_forward import forward_kernel, scores_kernel
from regard.attention.kernels.additive_problem import HARDWARE, HIDDEN, Problem


def forward(problem: Problem, value: Tensor) -> tuple[Tensor, Tensor]:
    """The output [b, h, q, dv] and the log-sum-exp [b, h, q] of each query, for values [b, g, k, dv]."""
    batch, heads, queries, _ = problem.query.shape
    out = value.new_empty(batch, heads, queries, value.shape[-1])
    lse = value.new_empty(batch, heads, queries, dtype=torch.float32)
    features = max(16, min(256, triton.next_power_of_2(value.shape[-1])))
    some, keys, warps = problem.others, problem.tiles[1], problem.tiles[1] // 32
    if value.dtype == torch.float32:  # a product in float32 lies in registers, and spills when it is larger
        some, keys, warps = 16, 32, 8 if features > 128 else 4
    tensors, numbers, flags = problem.given(value)
    grid = (batch * heads, triton.cdiv(queries, some), triton.cdiv(value.shape[-1], features))
    forward_kernel[grid](
        *tensors, out, lse, *numbers, **flags, QUERIES=some, KEYS=keys, VALUES=features, num_warps=warps
    )
    return out, lse


def backward(
    problem: Problem, value: Tensor, out: Tensor, lse: Tensor, upstream: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of query, key, vector and value."""
    query, key = problem.query, problem.key
    heads, keys = query.shape[1], key.shape[2]
    upstream = upstream.contiguous()
    delta = (upstream.float() * out.float()).sum(-1)
    to_value = torch.zeros(value.shape, dtype=torch.float32, device=value.device)
    sums = Sums.of(problem)
    tensors, numbers, flags = problem.given(value)
    tile = problem.tiles[1]
    features = max(16, min(64, triton.next_power_of_2(value.shape[-1])))
    for entries, rows in problem.chunks():
        some, strips = rows.stop - rows.start, (entries.stop - entries.start) * heads
        slopes = value.new_empty(strips, some, keys, dtype=torch.float32)
        mirrored = slopes.new_empty(strips, keys, some)
        weights = value.new_empty(strips, some, keys)
        grid = (strips, triton.cdiv(some, problem.others), triton.cdiv(keys, tile))
        slopes_kernel[grid](
            *tensors, lse, upstream, delta, slopes, mirrored, weights, *numbers,
            entries.start * heads, rows.start, some,
            **flags, QUERIES=problem.others, KEYS=tile, VALUES=features, num_warps=tile // 32,
        )  # fmt: skip
        sums.add(slopes, mirrored, entries, rows)
        # Heads that share a value are rows of one product.
        shape = (entries.stop - entries.start, key.shape[1], problem.groups * some)
        asked = upstream[entries, :, rows].reshape(*shape, value.shape[-1])
        to_value[entries] += (weights.view(*shape, keys).mT @ asked).float()
    return *sums.gradients(), to_value.to(value)


def scores(problem: Problem) -> Tensor:
    """vᵀ tanh(query + key) of every pair, [n, q, k] for [1, n, q, r]."""
    _, entries, queries, _ = problem.query.shape
    keys, tile = problem.key.shape[2], problem.tiles[1]
    out = problem.query.new_empty(entries, queries, keys)
    asking, asked = problem.rows
    grid = (entries, triton.cdiv(queries, problem.others), triton.cdiv(keys, tile))
    scores_kernel[grid](
        *asking.parts, *asked.parts, *problem.weighed, out,
        queries, keys, asking.width, asking.padded, asked.padded,
        PAIRED=problem.paired, HARDWARE=HARDWARE, UNROLL=problem.unroll, QUERIES=problem.others, KEYS=tile, num_warps=tile // 32,
    )  # fmt: skip
    return out


def scores_backward(problem: Problem, slopes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of query, key and vector from those of the scores, [n, q, k]."""
    sums = Sums.of(problem)
    sums.add(slopes.contiguous(), slopes.mT.contiguous(), slice(0, 1), slice(0, problem.query.shape[2]))
    return sums.gradients()


@dataclass(frozen=True)
class Sums:
    """Gradients in the making, laid out as the prepared rows are."""

    problem: Problem
    query: Tensor
    key: Tensor
    met: Tensor  # Σ slope · tanh of each query and hidden unit

    @classmethod
    def of(cls, problem: Problem) -> "Sums":
        """Zeros."""
        query, key = (torch.zeros_like(rows.plain, dtype=torch.float32) for rows in problem.rows)
        return cls(problem, query, key, torch.zeros_like(query))

    def add(self, slopes: Tensor, mirrored: Tensor, entries: slice, rows: slice) -> None:
        """What the slopes of some entries of the batch and some of their queries say."""
        problem, (asking, asked) = self.problem, self.problem.rows
        heads, groups, first = problem.query.shape[1], problem.groups, entries.start * problem.query.shape[1]
        strips, some, keys = slopes.shape
        low, high = problem.band
        tile, key_tile = problem.tiles
        units = next(size for size in HIDDEN if asking.width % size == 0)
        shared: dict[str, Any] = {"SPARSE": problem.rest is not None, "PAIRED": problem.paired}
        shared |= {"HARDWARE": HARDWARE, "OTHERS": problem.others, "HIDDEN": units}
        gradient_kernel[(strips, triton.cdiv(some, tile), asking.width // units)](
            *asking.parts, *asked.parts, problem.weighed[0], mirrored, self.query, self.met,
            first, rows.start, some, asking.padded, 0, keys, asked.padded,
            asking.width, groups, 1, first, heads, low, high, problem.scale,
            QUERIES_OWN=True, OWNS=tile, num_warps=tile // 32, **shared,
        )  # fmt: skip
        gradient_kernel[(strips // groups, triton.cdiv(keys, key_tile), asking.width // units)](
            *asked.parts, *asking.parts, problem.weighed[0], slopes, self.key, self.met,
            first // groups, 0, keys, asked.padded, rows.start, some, asking.padded,
            asking.width, 1, groups, first, heads, -high, -low, problem.scale,
            QUERIES_OWN=False, OWNS=key_tile, num_warps=key_tile // 32, **shared,
        )  # fmt: skip

    def gradients(self) -> tuple[Tensor, Tensor, Tensor]:
        """Of query, key and vector, in their shapes and dtypes."""
        query, key, vector = self.problem.query, self.problem.key, self.problem.vector
        hidden = query.shape[-1]
        found = [
            sums[:, :hidden, : part.shape[2]].mT.to(part.dtype).reshape(part.shape)
            for sums, part in ((self.query, query), (self.key, key))
        ]
        to_vector = self.met[:, :hidden, : query.shape[2]].sum(-1).view(-1, *vector.shape).sum(0)
        return found[0], found[1], to_vector.to(vector.dtype)
