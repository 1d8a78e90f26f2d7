"""Attention rollout: how much of each input reaches each output, through all layers."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.call import Call
from regard.errors import RegardError
from regard.sight.selection import Choice, positions
from regard.sight.strips import CAPACITY, heads_together


def rollout(
    calls: Sequence[Call], *, residual: float = 0.5, queries: Choice = None, capacity: int = CAPACITY
) -> Float[Tensor, "*batch n tokens"]:
    """How much of each input token reaches each output token, if attention and residuals only mix.

    A_L ⋯ A_1 with A = (1 − residual) · W̄ + residual · I, where W̄ is the mean of the weights over the heads (Abnar
    2020). The mean is over the heads in which a query looks; where it looks in none its row of A is that
    of I, so that every row sums to 1. `calls` are self-attention from the first layer to the last.

    The whole is quadratic in the tokens. `queries` asks for the rows of some, which are carried down from the last
    layer in memory linear in the tokens.
    """
    _check(calls, residual)
    batch, tokens = calls[0].query.shape[:-3], calls[0].extent.queries
    chosen = positions(queries, tokens, "query")
    wide = torch.float32
    for call in calls:
        wide = torch.promote_types(wide, call.query.dtype)
    flow = torch.zeros(batch.numel(), len(chosen), tokens, dtype=wide, device=calls[0].query.device)
    for row, query in enumerate(chosen):
        flow[:, row, query] = 1.0
    for call in reversed(calls):
        flow = _through(call, flow, residual=residual, capacity=capacity)
    return flow.view(*batch, len(chosen), tokens)


def _through(call: Call, flow: Tensor, *, residual: float, capacity: int) -> Tensor:
    """flow · A, for the A of one layer."""
    passed = torch.zeros_like(flow)
    for part in heads_together(call, capacity=capacity):
        arriving = flow[part.entry, :, part.rows]
        looking = part.looking.sum(0).to(flow)  # in how many heads
        kept = torch.full_like(looking, residual).masked_fill_(looking == 0, 1.0)
        given = torch.where(looking > 0, (1 - residual) / looking, 0.0)
        passed[part.entry, :, part.rows] += arriving * kept
        passed[part.entry, :, part.columns] += (arriving * given) @ part.weights.sum(0).to(flow)
    return passed


def _check(calls: Sequence[Call], residual: float) -> None:
    if not calls:
        raise RegardError("rollout of no layers: give the calls of at least one")
    if not 0 <= residual <= 1:
        raise RegardError(f"residual={residual}: the share of the residual lies from 0 to 1")
    first = calls[0]
    for layer, call in enumerate(calls):
        if call.extent.queries != call.extent.keys:
            raise RegardError(
                f"layer {layer} has {call.extent.queries} queries and {call.extent.keys} keys: rollout is for "
                "self-attention over the same tokens in every layer"
            )
        if call.query.shape[:-3] != first.query.shape[:-3] or call.extent.keys != first.extent.keys:
            raise RegardError(
                f"layer {layer} has a query of shape {tuple(call.query.shape)}, layer 0 of {tuple(first.query.shape)}: "
                "rollout is for the same batch of tokens in every layer"
            )
