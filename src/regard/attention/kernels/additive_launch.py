"""Runs the Triton kernels of additive attention on tensors, forward and backward."""

from dataclasses import dataclass

import torch
import triton  # type: ignore[import-untyped,import-not-found,unused-ignore]
from torch import Tensor

from regard.attention.kernels.additive_backward import gradient_kernel, slopes_kernel
from regard.attention.kernels.additive_forward import forward_kernel, scores_kernel
from regard.attention.kernels.additive_problem import HARDWARE, Problem, Rows


def forward(problem: Problem, value: Tensor) -> tuple[Tensor, Tensor]:
    """The output [b, h, q, dv] and the log-sum-exp [b, h, q] of each query, for values [b, g, k, dv]."""
    batch, heads, queries, _ = problem.query.shape
    out = value.new_empty(batch, heads, queries, value.shape[-1])
    lse = value.new_empty(batch, heads, queries, dtype=torch.float32)
    features = max(16, min(256, triton.next_power_of_2(value.shape[-1])))
    some, keys, warps = problem.tiling.queries, problem.keys, problem.warps
    if value.dtype == torch.float32:  # a product in float32 lies in registers, and spills when it is larger
        some, keys, warps = 16, 32, 8 if features > 128 else 4
    tensors, numbers, flags = problem.given(value)
    grid = (batch * heads, triton.cdiv(queries, some), triton.cdiv(value.shape[-1], features))
    forward_kernel[grid](
        *tensors, out, lse, *numbers, **flags, QUERIES=some, KEYS=keys, VALUES=features, num_warps=warps,
        maxnreg=problem.tiling.registers,
    )  # fmt: skip
    return out, lse


def backward(
    problem: Problem, value: Tensor, out: Tensor, lse: Tensor, upstream: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of query, key, vector and value."""
    keys, upstream = problem.key.shape[1], upstream.contiguous()
    seen = (lse, upstream, (upstream.float() * out.float()).sum(-1))
    to_value = torch.zeros(value.shape, dtype=torch.float32, device=value.device)
    sums = Sums.of(problem)
    for entries, rows in problem.chunks():
        slopes, mirrored, weights = slopes_of(problem, value, seen, entries, rows)
        sums.add(slopes, mirrored, entries, rows)
        # Heads that share a value are rows of one product.
        asked = upstream[entries, :, rows].reshape(
            -1, keys, problem.groups * slopes.shape[1], value.shape[-1]
        )
        to_value[entries] += (weights.view(*asked.shape[:3], -1).mT @ asked).float()
    return *sums.gradients(), to_value.to(value)


def slopes_of(
    problem: Problem, value: Tensor, seen: tuple[Tensor, Tensor, Tensor], entries: slice, rows: slice
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of the scaled scores of some queries, [strips, some, k] and [strips, k, some], and the weights.

    `seen` is the log-sum-exp of each query, the gradient of its output, and the product of that with the output.
    """
    heads, tiling, keys = problem.query.shape[1], problem.tiling, problem.key.shape[2]
    some, strips = rows.stop - rows.start, (entries.stop - entries.start) * heads
    slopes = value.new_empty(strips, some, keys, dtype=torch.float32)
    mirrored = slopes.new_empty(strips, keys, some)
    weights = value.new_empty(strips, some, keys)
    tensors, numbers, flags = problem.given(value)
    slopes_kernel[(strips, triton.cdiv(some, tiling.queries), triton.cdiv(keys, problem.keys))](
        *tensors, *seen, slopes, mirrored, weights, *numbers,
        entries.start * heads, rows.start, some,
        **flags, QUERIES=tiling.queries, KEYS=problem.keys,
        VALUES=max(16, min(64, triton.next_power_of_2(value.shape[-1]))),
        num_warps=problem.warps, maxnreg=tiling.registers,
    )  # fmt: skip
    return slopes, mirrored, weights


def scores(problem: Problem) -> Tensor:
    """vᵀ tanh(query + key) of every pair, [n, q, k] for [1, n, q, r]."""
    _, entries, queries, _ = problem.query.shape
    keys, tile, some = problem.key.shape[2], problem.keys, problem.tiling.queries
    out = problem.query.new_empty(entries, queries, keys)
    asking, asked = problem.rows
    grid = (entries, triton.cdiv(queries, some), triton.cdiv(keys, tile))
    scores_kernel[grid](
        *asking.parts, *asked.parts, *problem.weighed, out,
        queries, keys, asking.width, asking.padded, asked.padded,
        PAIRED=problem.paired, HARDWARE=HARDWARE, UNROLL=problem.tiling.unroll, QUERIES=some, KEYS=tile,
        num_warps=problem.warps, maxnreg=problem.tiling.registers,
    )  # fmt: skip
    return out


def scores_backward(problem: Problem, slopes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of query, key and vector from those of the scores, [n, q, k]."""
    sums = Sums.of(problem)
    sums.add(slopes.contiguous(), slopes.mT.contiguous(), slice(0, 1), slice(0, problem.query.shape[2]))
    return sums.gradients()


@dataclass(frozen=True)
class Sums:
    """Gradients in the making, in float32."""

    problem: Problem
    rows: tuple[Rows, Rows]  # prepared row by row
    query: Tensor  # [entries, q, width]
    key: Tensor  # [entries of the keys, k, width]
    met: Tensor  # Σ slope · tanh of each entry and hidden unit

    @classmethod
    def of(cls, problem: Problem) -> "Sums":
        """Zeros."""
        rows = problem.by_row()
        zeros = [
            part.new_zeros(part.shape[0] * part.shape[1], part.shape[2], own.width, dtype=torch.float32)
            for part, own in zip((problem.query, problem.key), rows, strict=True)
        ]
        return cls(problem, rows, *zeros, zeros[0].new_zeros(zeros[0].shape[0], rows[0].width))

    def add(self, slopes: Tensor, mirrored: Tensor, entries: slice, rows: slice) -> None:
        """What the slopes of some entries of the batch and some of their queries say."""
        problem, heads, groups = self.problem, self.problem.query.shape[1], self.problem.groups
        some = slice(entries.start * heads, entries.stop * heads)
        shared = slice(some.start // groups, some.stop // groups)
        to_query, met = self._pieces(mirrored, some.start, rows.start, queries_own=True)
        self.query[some, rows] += to_query
        self.met[some] += slopes.sum((1, 2))[:, None] - 2.0 * met if problem.paired else met
        to_key, _ = self._pieces(slopes, some.start, rows.start, queries_own=False)
        self.key[shared] += to_key.unflatten(0, (-1, groups)).sum(1)

    def _pieces(self, slopes: Tensor, first: int, row: int, *, queries_own: bool) -> tuple[Tensor, Tensor]:
        """Sums over the others for slopes [strips, others, owns], and over their slopes times tanh."""
        problem, own, other = self.problem, *(self.rows if queries_own else self.rows[::-1])
        tiling, (strips, others, owns) = problem.tiling, slopes.shape
        units = min(tiling.units, triton.next_power_of_2(own.width))
        tiles, blocks = triton.cdiv(owns, tiling.owns), triton.cdiv(own.width, units)
        splits = max(1, min(tiling.enough // (strips * tiles * blocks), triton.cdiv(others, tiling.piece)))
        piece = triton.cdiv(others, splits)
        sums = slopes.new_empty(splits, strips, owns, own.width)
        met = slopes.new_empty(splits, strips, tiles, own.width) if queries_own else sums
        low, high = problem.band if queries_own else (-problem.band[1], -problem.band[0])
        of_own, of_other = (1, row), (problem.groups, 0)
        if not queries_own:
            of_own, of_other = of_other, of_own
        gradient_kernel[(strips * tiles, blocks, splits)](
            *own.parts, *other.parts, problem.weighed[0], slopes, sums, met,
            first, problem.query.shape[1], *of_own, owns, own.padded, *of_other, others, other.padded,
            own.width, low, high, problem.scale, piece,
            QUERIES_OWN=queries_own, SPARSE=problem.rest is not None, PAIRED=problem.paired, HARDWARE=HARDWARE,
            OWNS=tiling.owns, OTHERS=32, HIDDEN=units, num_warps=1,
            maxnreg=(168 if queries_own else 128) if problem.paired else None,
        )  # fmt: skip
        return sums.sum(0), met.sum((0, 2))

    def gradients(self) -> tuple[Tensor, Tensor, Tensor]:
        """Of query, key and vector, in their shapes and dtypes."""
        query, key, vector = self.problem.query, self.problem.key, self.problem.vector
        hidden = query.shape[-1]
        found = [
            sums[..., :hidden].to(part.dtype).reshape(part.shape)
            for sums, part in ((self.query, query), (self.key, key))
        ]
        to_vector = self.met[:, :hidden].view(-1, *vector.shape).sum(0)
        return found[0], found[1], to_vector.to(vector.dtype)
