"""Gradient × attention: which looks changed the outcome, to first order.

The output of a call is o_i = Σ_j w_ij v_j, so a metric with gradient g_i = ∂m/∂o_i has ∂m/∂w_ij = g_i · v_j, and
w_ij (g_i · v_j) is what the metric would lose, to first order, were query i to get nothing from key j. Unlike the
weight itself it has a sign, and knows that a key with a small value hardly matters however much it is looked at.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.call import Call
from regard.attention.scores import share
from regard.errors import RegardError
from regard.sight.evidence import rectangle
from regard.sight.selection import Choice, positions
from regard.sight.strips import CAPACITY, strips


@torch.no_grad()
def attributed(
    call: Call,
    value: Float[Tensor, "*kv_batch k dv"],
    gradient: Float[Tensor, "*batch q dv"],
    *,
    queries: Choice = None,
    keys: Choice = None,
    capacity: int = CAPACITY,
) -> Float[Tensor, "*batch r c"]:
    """What the looks of some queries at some keys did for a metric.

    w ⊙ (g vᵀ), where g is the gradient of the metric in the output of the call (Serrano 2019; Chefer 2021
    before its positive part is taken).
    """
    value, gradient = _fitted(call, value, gradient)
    where = call.query.device
    rows = torch.tensor(positions(queries, call.extent.queries, "query"), device=where, dtype=torch.long)
    columns = torch.tensor(positions(keys, call.extent.keys, "key"), device=where, dtype=torch.long)
    weights = rectangle(call, rows, columns, capacity=capacity)
    pull = gradient[..., rows, :] @ value[..., columns, :].mT
    return torch.where(weights > 0, weights * pull, 0.0)  # what is not seen may hold anything, NaN too


@torch.no_grad()
def attributed_to_keys(
    call: Call,
    value: Float[Tensor, "*kv_batch k dv"],
    gradient: Float[Tensor, "*batch q dv"],
    *,
    capacity: int = CAPACITY,
) -> Float[Tensor, "*batch k"]:
    """What each key did for a metric through all the queries that looked at it.

    Σ_i w_ij (g_i · v_j) = (wᵀ g)_j · v_j, in memory linear in the length.
    """
    value, gradient = _fitted(call, value, gradient)
    batch = call.query.shape[:-2]
    value, gradient = (part.reshape(batch.numel(), *part.shape[-2:]) for part in (value, gradient))
    pulled = torch.zeros_like(value)
    for strip in strips(call, capacity=capacity):
        shares = strip.share[..., None]
        asked = torch.where(shares > 0, shares * gradient[strip.entries, strip.rows], 0.0)
        pulled[strip.entries, strip.columns] += strip.parts.mT @ asked
    return (pulled * torch.where(pulled == 0, 0.0, value)).sum(-1).view(*batch, -1)


def _fitted(call: Call, value: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Value and gradient with the heads of the query, in the dtype that is summed in."""
    if value.shape[:-1] != call.key.shape[:-1]:
        raise RegardError(
            f"a value of shape {tuple(value.shape)} for a key of {tuple(call.key.shape)}: one value a key"
        )
    if gradient.shape != (*call.query.shape[:-1], value.shape[-1]):
        raise RegardError(
            f"a gradient of shape {tuple(gradient.shape)} for an output of "
            f"{(*call.query.shape[:-1], value.shape[-1])}: give the gradient of what the call answered, heads apart"
        )
    wide = torch.promote_types(call.query.dtype, torch.float32)
    return share(value.to(wide), call.query), gradient.to(wide)
