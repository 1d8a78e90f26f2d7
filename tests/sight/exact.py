"""What measures are compared with: the weights written out in float64, and how much memory a question takes."""

import math
from dataclasses import replace

import pytest
import torch
from contracts.cases import Case, rectangular_masks, square_masks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from regard import Call, TensorBias, weigh

CAPACITIES = [57, 1 << 20]  # a few rows of one head at a time, everything at once


def cases(*, square: bool = True, score: str = "scaled", bias: str = "none", dtype: str = "f32"):
    """A mark that hands a test every mask, with grouped heads and without."""
    masks = square_masks() if square else rectangular_masks()
    found = [
        Case(mask=mask, score=score, bias=bias, dtype=dtype, grouped=grouped, square=square)
        for mask in masks
        for grouped in (False, True)
    ]
    return pytest.mark.parametrize("case", found, ids=str)


def written(call: Call) -> torch.Tensor:
    """The weights in float64, as the equation has them."""
    return weigh(replace(call, query=call.query.double(), key=call.key.double()))


def visible(call: Call) -> torch.Tensor:
    """Who may look at whom, from the mask and from a bias of −∞."""
    shape = (*call.query.shape[:-1], call.key.shape[-2])
    allowed = call.allowed()
    allowed = torch.ones(shape, dtype=torch.bool) if allowed is None else allowed.expand(shape)
    biases = call.biases()
    return allowed if biases is None else allowed & (biases != -math.inf)


def looking_as(weights) -> Call:
    """A call whose weights are these: the bias is their logarithm, and the rest is zero."""
    weights = torch.as_tensor(weights, dtype=torch.float32)
    query = torch.zeros(*weights.shape[:-1], 2)
    key = torch.zeros(*weights.shape[:-2], weights.shape[-1], 2)
    return Call(query, key, bias=TensorBias(weights.log()))


def close(found: torch.Tensor, expected: torch.Tensor, atol: float = 2e-6) -> None:
    assert found.shape == expected.shape
    torch.testing.assert_close(found.double(), expected.double(), rtol=2e-6, atol=atol)


class Largest(TorchDispatchMode):
    """Remembers the largest number of bytes that one tensor held."""

    size = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        answer = function(*args, **(kwargs or {}))
        held = [
            each.untyped_storage().nbytes() for each in tree_leaves(answer) if isinstance(each, torch.Tensor)
        ]
        self.size = max([self.size, *held])
        return answer
