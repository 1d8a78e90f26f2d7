"""Runs the Triton kernels of additive attention on tensors, forward and backward."""

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.attention.kernels.additive_backward import gradient_kernel, slopes_kernel
from regard.attention.kernels.additive_forward import forward_kernel, scores_kernel
from regard.attention.kernels.additive_problem import HARDWARE, Problem, power_of_two


@dataclass(frozen=True)
class Tile:
    """How gradients are cut for the chip: a warp holds some owns and some of their hidden units."""

    owns: int
    units: int
    registers: int


TO_QUERY = Tile(owns=8, units=64, registers=128)
TO_KEY = Tile(owns=8, units=64, registers=96)
ENOUGH = 16384  # programs of the gradients, so that all of the chip works until the end
PIECE = 128  # others that a program of the gradients takes, at least


def forward(problem: Problem, value: Tensor) -> tuple[Tensor, Tensor]:
    """The output [b, h, q, dv] and the log-sum-exp [b, h, q] of each query, for values [b, g, k, dv]."""
    batch, heads, queries, _ = problem.query.shape
    out = value.new_empty(batch, heads, queries, value.shape[-1])
    lse = value.new_empty(batch, heads, queries, dtype=torch.float32)
    features = max(16, min(256, power_of_two(value.shape[-1])))
    some, keys, warps = problem.tiling.queries, problem.keys, problem.warps
    if value.dtype == torch.float32:  # a product in float32 lies in registers, and spills when it is larger
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
    slopes_kernel[(strips, -(-some // tiling.queries), -(-keys // problem.keys))](
        *tensors, *seen, slopes, mirrored, weights, *numbers,
        entries.start * heads, rows.start, some,
        **flags, QUERIES=tiling.queries, KEYS=problem.keys,
        VALUES=max(16, min(64, power_of_two(value.shape[-1]))),
        num_warps=problem.warps, maxnreg=problem.registers,
    )  # fmt: skip
    return slopes, mirrored, weights


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
    sums.add(slopes.contiguous(), slopes.mT.contiguous(), slice(0, 1), slice(0, problem.query.shape[2]))
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
        """Zeros for all that is added to: each query gets all of its sums at once."""
        query, key, width = problem.query, problem.key, problem.rows[0].width
        to_query = query.new_empty(
            query.shape[0] * query.shape[1], query.shape[2], width, dtype=torch.float32
        )
        to_key = key.new_zeros(key.shape[0] * key.shape[1], key.shape[2], width, dtype=torch.float32)
        return cls(problem, to_query, to_key, to_key.new_zeros(to_query.shape[0], width))

    def add(self, slopes: Tensor, mirrored: Tensor, entries: slice, rows: slice) -> None:
        """What the slopes of some entries of the batch and some of their queries say."""
        heads, groups = self.problem.query.shape[1], self.problem.groups
        some = slice(entries.start * heads, entries.stop * heads)
        pieces, met = self._pieces(mirrored, some.start, rows.start, queries_own=True)
        torch.sum(pieces, 0, out=self.query[some, rows])
        met = met.sum((0, 2))
        if self.problem.paired:  # tanh = 1 − 2ρ
            met = slopes.sum((1, 2), dtype=torch.float32)[:, None] - 2.0 * met
        self.met[some] += met
        pieces, _ = self._pieces(slopes, some.start, rows.start, queries_own=False)
        heard = pieces.view(len(pieces), -1, groups, *pieces.shape[2:]).sum((0, 2))
        self.key[some.start // groups : some.stop // groups] += heard

    def _pieces(self, slopes: Tensor, first: int, row: int, *, queries_own: bool) -> tuple[Tensor, Tensor]:
        """Sums over pieces of the others for slopes [strips, others, owns], and of tiles over slope · tanh."""
        problem, tile, (strips, others, owns) = (
            self.problem,
            TO_QUERY if queries_own else TO_KEY,
            slopes.shape,
        )
        own, other = problem.rows if queries_own else problem.rows[::-1]
        units = min(tile.units, power_of_two(own.width))
        tiles, blocks = -(-owns // tile.owns), -(-own.width // units)
        splits = max(1, min(ENOUGH // (strips * tiles * blocks), -(-others // PIECE)))
        sums = self.met.new_empty(splits, strips, owns, own.width)
        met = self.met.new_empty(splits, strips, tiles, own.width) if queries_own else sums
        (low, high), of_own, of_other = problem.band, (1, row), (problem.groups, 0)
        if not queries_own:
            low, high, of_own, of_other = -high, -low, of_other, of_own
        gradient_kernel[(strips * tiles, blocks, splits)](
            *own.by_row, *other.by_row, problem.weight, slopes, sums, met,
            first, problem.query.shape[1], *of_own, owns, own.padded, *of_other, others, other.padded,
            own.width, low, high, problem.scale, -(-others // splits),
            QUERIES_OWN=queries_own, PAIRED=problem.paired, HARDWARE=HARDWARE,
            OWNS=tile.owns, OTHERS=32, HIDDEN=units, num_warps=1,
            maxnreg=tile.registers if problem.paired else None,
        )  # fmt: skip
        return sums, met

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
