"""Runs the Triton kernels of additive attention on tensors, forward and backward."""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.attention.kernels.additive_backward import gather_kernel, gradient_kernel
from regard.attention.kernels.additive_forward import forward_kernel, scores_kernel
from regard.attention.kernels.additive_problem import HARDWARE, Problem, power_of_two, whole
from regard.attention.kernels.additive_slopes import slopes_kernel


@dataclass(frozen=True)
class AdditiveTile:
    """How gradients are cut for the chip: a warp holds some queries and some of their hidden units."""

    queries: int
    rows: int  # how many of the queries are computed at a time
    units: int
    registers: int | None
    unroll: int = 1
    keys: int = 32


# The interpreter counts operations, not registers.
GRADIENT = AdditiveTile(queries=32, rows=4 if HARDWARE else 16, units=32, registers=128, unroll=2)
ENOUGH = 16384  # programs of the gradients, so that all of the chip works until the end
PIECE = 64  # keys that a program of the gradients takes, at least


def forward(problem: Problem, value: Tensor) -> tuple[Tensor, Tensor]:
    """The output [b, h, q, dv] and the log-sum-exp [b, h, q] of each query, for values [b, g, k, dv]."""
    batch, heads, queries, _ = problem.query.shape
    out = value.new_empty(batch, heads, queries, value.shape[-1])
    lse = value.new_empty(batch, heads, queries, dtype=torch.float32)
    features = max(16, min(256, power_of_two(value.shape[-1])))
    some, keys, warps = problem.tiling.queries, problem.keys, problem.warps
    if (
        value.dtype == torch.float32
    ):  # a product in float32 is kept in registers, and spills when it is larger
        some, keys, warps = 16, 32, 8 if features > 128 else 4
    elif features > 128:
        keys = min(keys, 128)  # more values do not fit in shared memory
    tensors, numbers, flags = problem.given(value)
    grid = (batch * heads, -(-queries // some), -(-value.shape[-1] // features))
    forward_kernel[grid](
        *tensors, out, lse, *numbers, **flags, QUERIES=some, KEYS=keys, VALUES=features, num_warps=warps,
        maxnreg=problem.registers,
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
    for entries, rows, columns in problem.chunks():
        slopes, weights = slopes_of(problem, value, seen, entries, rows, columns)
        sums.add(slopes, entries, rows, columns)
        # Heads that share a value are rows of one product.
        asked = upstream[entries, :, rows].reshape(
            -1, keys, problem.groups * weights.shape[1], value.shape[-1]
        )
        to_value[entries, :, columns] += weights.view(*asked.shape[:3], -1).mT @ asked
    return *sums.gradients(), to_value.to(value)


def slopes_of(
    problem: Problem,
    value: Tensor,
    seen: tuple[Tensor, Tensor, Tensor],
    entries: slice,
    rows: slice,
    columns: slice,
) -> tuple[Tensor, Tensor]:
    """The gradients of the scaled scores of some queries and keys, as `Sums` takes them, and the weights.

    `seen` is the log-sum-exp of each query, the gradient of its output, and the product of that with the output.
    """
    heads, tiling, tile = problem.query.shape[1], problem.tiling, problem.keys
    some, keys, strips = (
        rows.stop - rows.start,
        columns.stop - columns.start,
        (entries.stop - entries.start) * heads,
    )
    slopes = value.new_empty(strips, *slope_shape(keys, some), dtype=torch.float32)
    weights = value.new_empty(strips, some, keys)
    tensors, numbers, flags = problem.given(value)
    slopes_kernel[(strips, -(-slopes.shape[2] // tiling.queries), -(-slopes.shape[1] // tile))](
        *tensors, *seen, slopes, weights, *numbers,
        entries.start * heads, rows.start, some, slopes.shape[2], columns.start, keys, slopes.shape[1],
        **flags, QUERIES=tiling.queries, KEYS=tile,
        VALUES=max(16, min(64, power_of_two(value.shape[-1]))),
        num_warps=problem.warps, maxnreg=problem.registers,
    )  # fmt: skip
    return slopes, weights


def slope_shape(keys: int, queries: int) -> tuple[int, int]:
    """The shape of the slopes of some keys and queries, filled up to whole tiles."""
    return whole(keys, GRADIENT.keys), whole(queries, GRADIENT.queries)


def scores(problem: Problem) -> Tensor:
    """vᵀ tanh(query + key) of every pair, [n, q, k] for [1, n, q, r]."""
    _, entries, queries, _ = problem.query.shape
    keys, tile, some = problem.key.shape[2], problem.keys, problem.tiling.queries
    out = problem.query.new_empty(entries, queries, keys)
    asking, asked = problem.rows
    grid = (entries, -(-queries // some), -(-keys // tile))
    scores_kernel[grid](
        *asking.by_unit, *asked.by_unit, problem.weight, out,
        queries, keys, asking.width, asking.padded, asked.padded,
        PAIRED=problem.paired, HARDWARE=HARDWARE, UNROLL=problem.tiling.unroll, QUERIES=some, KEYS=tile,
        num_warps=problem.warps, maxnreg=problem.registers,
    )  # fmt: skip
    return out


def scores_backward(problem: Problem, slopes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of query, key and vector from those of the scores, [n, q, k]."""
    sums = Sums.of(problem)
    for entries, rows, columns in problem.chunks():
        part = slopes[:, rows, columns].mT
        filled = slopes.new_zeros(len(slopes), *slope_shape(*part.shape[1:]), dtype=torch.float32)
        filled[:, : part.shape[1], : part.shape[2]] = part
        sums.add(filled, entries, rows, columns)
    return sums.gradients()


@dataclass(frozen=True)
class Sums:
    """Gradients in the making, in float32."""

    problem: Problem
    query: Tensor  # [entries, q, width]
    key: Tensor  # [entries of the keys, k, width]
    met: Tensor  # Σ slope · tanh of each entry and hidden unit

    @classmethod
    def of(cls, problem: Problem) -> "Sums":
        """Zeros."""
        query, key, width = problem.query, problem.key, problem.rows[0].width
        to_query, to_key = (
            part.new_zeros(part.shape[0] * part.shape[1], part.shape[2], width, dtype=torch.float32)
            for part in (query, key)
        )
        return cls(problem, to_query, to_key, to_key.new_zeros(to_query.shape[0], width))

    def add(self, slopes: Tensor, entries: slice, rows: slice, columns: slice) -> None:
        """What the slopes [strips, keys, queries] of some queries and keys say, with zeros up to whole tiles."""
        problem, tile, (strips, keys, queries) = self.problem, GRADIENT, slopes.shape
        asking, asked = problem.rows
        heads, groups, width = problem.query.shape[1], problem.groups, asking.width
        wanted = columns.stop - columns.start
        units = min(tile.units, power_of_two(width))
        tiles, blocks = queries // tile.queries, -(-width // units)
        splits = max(1, min(ENOUGH // (strips * tiles * blocks), -(-wanted // PIECE)))
        piece = whole(-(-wanted // splits), tile.keys)
        splits = -(-wanted // piece)
        to_query = self.met.new_empty(strips, splits, queries, width)
        to_key = self.met.new_empty(strips, tiles, keys, width)
        met = self.met.new_empty(strips, splits * tiles, width)
        some = slice(entries.start * heads, entries.stop * heads)
        gradient_kernel[(strips * tiles, blocks, splits)](
            *asking.by_row, *asked.by_row, problem.weight, slopes, to_query, to_key, met,
            some.start, heads, groups, rows.start, queries, asking.padded, columns.start, wanted, keys, asked.padded,
            0, *problem.band, problem.scale, piece,
            PAIRED=problem.paired, HARDWARE=HARDWARE, WIDTH=width,
            QUERIES=tile.queries, ROWS=tile.rows, KEYS=tile.keys, UNITS=units, UNROLL=tile.unroll,
            num_warps=1, maxnreg=tile.registers if problem.paired else None,
        )  # fmt: skip
        self.met[some] += met.sum(1) * (-2.0 if problem.paired else 1.0)
        heard = self.key[some.start // groups : some.stop // groups]
        for parts, sums, shared, stretch in (
            (to_query, self.query[some], 1, rows),
            (to_key, heard, groups, columns),
        ):
            size = stretch.stop - stretch.start
            gather_kernel[(len(sums) * -(-size * width // 512),)](
                parts, sums, shared, parts.shape[1], piece, rows.start, columns.start,
                stretch.start, size, parts.shape[2], sums.shape[1], *problem.band,
                OF_KEYS=parts is to_key, WIDTH=width, QUERIES=tile.queries, KEYS=tile.keys, PIECES=8, BLOCK=512,
            )  # fmt: skip

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
