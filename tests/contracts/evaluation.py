"""Runs a call forward and backward and gathers everything that came out."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard import Call, attend


@dataclass(frozen=True)
class Result:
    """The output, and the gradients of query, key, value and of every weight in score and bias."""

    output: Tensor
    query: Tensor
    key: Tensor
    value: Tensor
    weights: tuple[Tensor, ...]

    def gradients(self) -> tuple[Tensor, ...]:
        return (self.query, self.key, self.value, *self.weights)


def evaluate(call: Call, value: Tensor, upstream: Tensor) -> Result:
    """Forward, then backward from `upstream`, the gradient of the output."""
    query, key, value = (part.detach().clone().requires_grad_() for part in (call.query, call.key, value))
    parts = [part for part in (call.score, call.bias) if isinstance(part, nn.Module)]
    weights = [weight for part in parts for weight in part.parameters() if weight.requires_grad]
    output = attend(Call(query, key, call.mask, call.bias, call.score, call.scale), value)
    found = torch.autograd.grad(output, [query, key, value, *weights], upstream, allow_unused=True)
    zeros = (torch.zeros_like(part) for part in (query, key, value, *weights))
    grads = [zero if grad is None else grad for grad, zero in zip(found, zeros, strict=True)]
    return Result(output.detach(), *grads[:3], tuple(grads[3:]))


def looking_and_seen(call: Call) -> tuple[Tensor, Tensor]:
    """Which queries may look at something and which keys are seen by somebody, from the matrices themselves."""
    batch, heads, queries = call.query.shape[:3]
    keys = call.key.shape[-2]
    allowed = torch.ones(batch, heads, queries, keys, dtype=torch.bool)
    if call.mask is not None:
        matrix = call.mask.dense(queries, keys)
        while matrix.ndim < 4:
            matrix = matrix.unsqueeze(-3)
        allowed = allowed & matrix
    if call.bias is not None:
        allowed = allowed & (call.bias.dense(queries, keys) > -torch.inf)
    seen = allowed.any(-2).view(batch, call.key.shape[1], -1, keys).any(2)
    return allowed.any(-1), seen
