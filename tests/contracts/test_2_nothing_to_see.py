"""Contract 2: a query that may look at nothing gets exactly 0, and every gradient is finite."""

import pytest
import torch
from contracts.cases import DTYPES, HEADS, WIDTH, Case, biases, scores
from contracts.evaluation import evaluate, looking_and_seen

from regard import Call, Mask, attend, keep, lengths, packed, weigh, window


def test_a_query_that_may_look_at_nothing_gets_exactly_zero(case: Case) -> None:
    call, value = case.build()
    looking, _ = looking_and_seen(call)
    result = evaluate(call, value, torch.ones(*call.query.shape[:-1], value.shape[-1], dtype=value.dtype))
    assert (result.output[~looking] == 0).all()
    assert (result.output[looking] != 0).any(-1).all()
    for gradient in (result.output, *result.gradients()):
        assert gradient.isfinite().all()


def test_a_row_of_weights_sums_to_one_or_to_zero(case: Case) -> None:
    call, _ = case.build()
    looking, _ = looking_and_seen(call)
    weights = weigh(call).double()
    tolerance = 1e-12 if case.dtype == "f64" else 4 * torch.finfo(call.query.dtype).eps
    torch.testing.assert_close(weights.sum(-1), looking.double(), rtol=0, atol=tolerance)
    assert (weights >= 0).all()


# Batch, heads, queries and keys: none of one of them, or of several; at a length that the kernels of a band take, too.
EMPTY = [(0, HEADS, 7, 11), (3, HEADS, 0, 11), (3, HEADS, 7, 0), (3, HEADS, 0, 0), (0, HEADS, 0, 0)]
EMPTY += [(0, HEADS, 211, 211), (3, HEADS, 0, 211), (3, HEADS, 5, 11)]


@pytest.mark.parametrize("size", EMPTY, ids=str)
@pytest.mark.parametrize("bias", biases())
@pytest.mark.parametrize("score", scores())
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_where_there_is_nothing_everything_has_a_gradient_of_zeros(
    dtype: str, score: str, bias: str, size: tuple[int, int, int, int]
) -> None:
    batch, heads, queries, keys = size
    masks: list[Mask | None] = [lengths(keys=0), keep(torch.zeros(queries, keys, dtype=torch.bool))]
    if 0 in size:
        masks += [None, window(3, offset=0)]
    for mask in masks:
        asked = scores()[score](heads).to(DTYPES[dtype])
        added = biases()[bias](queries, keys)
        learned = dict(asked.named_parameters())
        if isinstance(added, torch.nn.Module):
            learned |= dict(added.to(DTYPES[dtype]).named_parameters())
        for name, *shape in ("query", queries, WIDTH), ("key", keys, WIDTH), ("value", keys, 5):
            learned[name] = torch.randn(batch, heads, *shape, dtype=DTYPES[dtype], requires_grad=True)
        output = attend(Call(learned["query"], learned["key"], mask, added, asked), learned["value"])
        assert output.shape == (batch, heads, queries, 5)
        assert (output == 0).all()
        output.sum().backward()
        assert [name for name, part in learned.items() if part.grad is None] == []
        assert all((part.grad == 0).all() for part in learned.values())


@pytest.mark.parametrize("counts", [[], [0], [0, 0, 0]], ids=str)
def test_packed_sequences_without_a_position_have_gradients_too(counts: list[int]) -> None:
    mask = packed(torch.tensor(counts, dtype=torch.long))
    parts = [torch.randn(1, HEADS, 0, WIDTH, requires_grad=True) for _ in range(3)]
    output = attend(*parts, mask)
    assert output.shape == (1, HEADS, 0, WIDTH)
    output.sum().backward()
    assert all(part.grad is not None for part in parts)
