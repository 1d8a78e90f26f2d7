"""Contract 7: errors against float64 are no larger than twice those of the plain computation in the same dtype."""

import math

import torch
from contracts.cases import DTYPES, Case
from torch import Tensor

from regard import Call, attend, weigh


def plain(call: Call, value: Tensor) -> Tensor:
    """Scores, softmax and values as one would type them, every step in the dtype of the call."""
    groups = call.query.shape[1] // call.key.shape[1]
    key, value = (part.repeat_interleave(groups, 1) for part in (call.key, value))
    scores = call.score(call.query, key if not hasattr(call.score, "key_weight") else call.key)
    if call.bias is not None:
        scores = scores + call.bias.dense(*scores.shape[-2:]).to(scores.dtype)
    if call.mask is not None:
        allowed = call.mask.dense(*scores.shape[-2:])
        while allowed.ndim < 4:
            allowed = allowed.unsqueeze(-3)
        scores = scores.masked_fill(~allowed, -math.inf)
    return torch.softmax(scores, -1).nan_to_num(0.0) @ value


def in_float64(call: Call, value: Tensor) -> Tensor:
    bias, score = call.bias, call.score.double()
    if isinstance(bias, torch.nn.Module):
        bias = bias.double()
    wide = Call(call.query.double(), call.key.double(), call.mask, bias, score)
    return weigh(wide) @ value.double().repeat_interleave(wide.groups, 1)


@torch.no_grad()
def test_the_error_is_at_most_twice_that_of_the_plain_computation(case: Case) -> None:
    ours, theirs, size = [], [], 0.0
    for seed in range(8):  # the largest error of one draw is luck; of eight it is the computation's
        call, value = case.build(seed)
        mine, plainly, truth = attend(call, value), plain(call, value), in_float64(call, value)
        ours.append((mine.double() - truth).abs())
        theirs.append((plainly.double() - truth).abs())
        size = max(size, truth.abs().max().item())
    mine, plainly = torch.stack(ours), torch.stack(theirs)
    # Half the spacing of the dtype at the size of the answer: what storing the right result already costs.
    floor = torch.finfo(DTYPES[case.dtype]).eps * size / 2
    assert mine.max() <= 2 * plainly.max() + floor
    assert mine.square().mean().sqrt() <= 2 * plainly.square().mean().sqrt() + floor / 10


test_the_error_is_at_most_twice_that_of_the_plain_computation.wanted = (  # type: ignore[attr-defined]
    lambda case: case.dtype != "f64"
)
