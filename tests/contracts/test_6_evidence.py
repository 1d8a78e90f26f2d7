"""Contract 6: evidence equals what float64 weights give, for every score, mask, bias and dtype, in strips of any size."""

import pytest
import torch
from contracts.cases import Case
from torch import Tensor

from regard import Call, weigh
from regard.sight import evidence


def in_float64(call: Call) -> Tensor:
    bias, score = call.bias, call.score.double()
    if isinstance(bias, torch.nn.Module):
        bias = bias.double()
    return weigh(Call(call.query.double(), call.key.double(), call.mask, bias, score)).detach()


@pytest.mark.parametrize("capacity", [1, 70, 1 << 20])
def test_evidence_is_what_float64_weights_give(case: Case, capacity: int) -> None:
    call, _ = case.build()
    if case.bias == "buckets" and case.dtype in ("bf16", "f16"):
        call.bias.double()  # type: ignore[union-attr]  # a table rounded to half is another table
    summary = evidence.summarise(call, capacity=capacity)
    keys, top = evidence.answer_to(call, evidence.Ranking(call, 3), capacity)
    cells = evidence.answer_to(call, evidence.Pooling(call, 4, 5), capacity)
    rows, columns = torch.tensor([10, 0, 3, 4]), torch.tensor([2, 2, 9])
    cut = evidence.rectangle(call, rows, columns, capacity=capacity)
    weights = in_float64(call)

    close = {"rtol": 0, "atol": 2e-5 if case.dtype != "f64" else 1e-12, "check_dtype": False}
    torch.testing.assert_close(summary.entropy, -torch.special.xlogy(weights, weights).sum(-1), **close)
    torch.testing.assert_close(summary.received, weights.sum(-2), **close)
    torch.testing.assert_close(summary.peak, weights.amax(-1), **close)
    torch.testing.assert_close(top, weights.topk(3).values, **close)
    torch.testing.assert_close(cut, weights[..., rows[:, None], columns], **close)
    torch.testing.assert_close(cells, pooled_by_hand(weights, 4, 5), **close)
    found = keys >= 0
    assert torch.equal(found, top > 0)
    looked_up = weights.gather(-1, keys.clamp_min(0))
    torch.testing.assert_close(looked_up[found], top[found].double(), **close)


def pooled_by_hand(weights: Tensor, height: int, width: int) -> Tensor:
    queries, keys = weights.shape[-2:]
    cells = weights.new_zeros(*weights.shape[:-2], height, width)
    for i in range(height):
        rows = [q for q in range(queries) if q * height // queries == i]
        for j in range(width):
            columns = [k for k in range(keys) if k * width // keys == j]
            cells[..., i, j] = weights[..., rows, :][..., columns].sum(-1).mean(-1)
    return cells
