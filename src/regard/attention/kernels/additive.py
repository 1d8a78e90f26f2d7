"""vᵀ tanh(key + query) for every pair, without ever holding the q × k × r numbers in between.

One tile at a time: the sum of a few queries and a few keys fits in cache, goes through tanh in place, and leaves
one number a pair. The backward pass makes each tile again. Registered as an operator, so that torch.compile and
torch.export take it as one step. On a GPU the tiles are those of the Triton kernels.
"""

import math
from collections.abc import Iterator
from itertools import product

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.kernels.additive_fused import obstacle

_TILE = 1 << 17  # numbers in a tile: half a megabyte of float32, which stays in the cache of a core


@torch.library.custom_op("regard::additive_scores", mutates_args=())
def additive_scores(query: Tensor, key: Tensor, vector: Tensor) -> Tensor:
    """[n, q, k], from mapped queries [n, q, r] and keys [n, k, r] and vectors [n, r]. Differentiable once."""
    if _on_gpu(query, key):
        from regard.attention.kernels import additive_launch
        from regard.attention.kernels.additive_problem import Problem

        return additive_launch.scores(Problem(query[None], key[None], vector))
    scores = query.new_empty(*query.shape[:2], key.shape[1])
    for some, rows, columns in _tiles(query, key):
        hidden = _hidden(query[some, rows], key[some, columns])
        scores[some, rows, columns] = torch.einsum("nqkr,nr->nqk", hidden, vector[some])
    return scores


@torch.library.custom_op("regard::additive_scores_backward", mutates_args=())
def _backward(grad: Tensor, query: Tensor, key: Tensor, vector: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    if _on_gpu(query, key):
        from regard.attention.kernels import additive_launch
        from regard.attention.kernels.additive_problem import BACKWARD, Problem

        problem = Problem(query[None], key[None], vector, backward=True, tiling=BACKWARD)
        to_query, to_key, to_vector = additive_launch.scores_backward(problem, grad)
        return to_query[0], to_key[0], to_vector
    wide = torch.promote_types(query.dtype, torch.float32)  # sums over many tiles keep their small terms
    to_query, to_key, to_vector = (torch.zeros_like(part, dtype=wide) for part in (query, key, vector))
    for some, rows, columns in _tiles(query, key):
        hidden = _hidden(query[some, rows], key[some, columns])
        slope = grad[some, rows, columns]
        to_vector[some] += torch.einsum("nqk,nqkr->nr", slope, hidden)
        inner = hidden.square_().neg_().add_(1.0).mul_(slope[..., None])  # d/dx tanh(x) = 1 − tanh(x)²
        to_query[some, rows] += inner.sum(2, dtype=wide)
        to_key[some, columns] += inner.sum(1, dtype=wide)
    for part in (to_query, to_key):
        part *= vector[:, None]  # v does not depend on the pair, so it can wait for the sums
    return to_query.to(query.dtype), to_key.to(key.dtype), to_vector.to(vector.dtype)


def _on_gpu(query: Tensor, key: Tensor) -> bool:
    return query.numel() > 0 and key.numel() > 0 and obstacle(query.device, query.dtype) is None


def _hidden(query: Tensor, key: Tensor) -> Tensor:
    return (query[:, :, None] + key[:, None, :]).tanh_()


def _tiles(query: Tensor, key: Tensor) -> Iterator[tuple[slice, slice, slice]]:
    """Slices (calls, queries, keys) that cover everything, each of at most `_TILE` hidden numbers or one pair."""
    sizes = (query.shape[0], query.shape[1], key.shape[1])
    budget = max(1, _TILE // max(query.shape[2], 1))
    steps = []
    for size in reversed(sizes):  # whole rows of keys first, then several queries, then several calls
        steps.append(max(1, min(size, budget)))
        budget = max(1, budget // max(size, 1))
    for starts in product(*(range(0, size, step) for size, step in zip(sizes, reversed(steps), strict=True))):
        yield tuple(slice(a, a + step) for a, step in zip(starts, reversed(steps), strict=True))  # type: ignore[misc]


@additive_scores.register_fake
def _(query: Tensor, key: Tensor, vector: Tensor) -> Tensor:
    return query.new_empty(*query.shape[:2], key.shape[1])


@_backward.register_fake
def _(grad: Tensor, query: Tensor, key: Tensor, vector: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(vector)


def _remember(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
    ctx.save_for_backward(*inputs)


def _differentiate(ctx, grad):  # type: ignore[no-untyped-def]
    return _backward(grad.contiguous(), *ctx.saved_tensors)


additive_scores.register_autograd(_differentiate, setup_context=_remember)


def scores_of(
    query: Float[Tensor, "*batch q r"],
    key: Float[Tensor, "*batch k r"],
    vector: Float[Tensor, "*head r"] | None,  # of the additive score
) -> Float[Tensor, "*batch q k"]:
    """QKᵀ, or vᵀ tanh(K + Q). In float32 for float16, which ends at 65504: what is scaled later may pass that."""
    if query.dtype == torch.float16:
        with torch.autocast(query.device.type, enabled=False):
            return scores_of(query.float(), key.float(), vector)
    return query @ key.mT if vector is None else additive(query, key, vector)


def additive(
    query: Float[Tensor, "*batch q r"], key: Float[Tensor, "*batch k r"], vector: Float[Tensor, "*head r"]
) -> Float[Tensor, "*batch q k"]:
    """vᵀ tanh(key + query), a tile at a time; `vector` is [r], or [heads, r] for heads on the last batch axis."""
    batch = query.shape[:-2]
    calls = math.prod(batch)
    vectors = vector.to(query.dtype).expand(*batch, -1).reshape(calls, vector.shape[-1])
    queries, keys = (part.reshape(calls, *part.shape[-2:]) for part in (query, key))
    return additive_scores(queries, keys, vectors).reshape(*batch, query.shape[-2], key.shape[-2])
