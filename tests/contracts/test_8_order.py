"""Contract 8: shuffling keys and values together changes nothing beyond rounding; head order only permutes."""

import torch
from contracts.cases import Case
from torch import nn

from regard import Call, HeadSizes, MultiHeadAttention, TensorBias, attend, keep


def in_double(case: Case) -> bool:
    return case.dtype == "f64"


def test_shuffling_keys_and_values_together_changes_nothing(case: Case) -> None:
    call, value = case.build()
    queries, keys = call.query.shape[-2], call.key.shape[-2]
    order = torch.randperm(keys)
    mask = None if call.mask is None else keep(call.mask.dense(queries, keys)[..., order])
    bias = call.bias
    if bias is not None:
        matrix = bias.dense(queries, keys)[..., order].double()
        bias = TensorBias(matrix if matrix.ndim == 2 else matrix.expand(1, *matrix.shape[-3:]))
    shuffled = Call(call.query, call.key[..., order, :], mask, bias, call.score)
    torch.testing.assert_close(
        attend(shuffled, value[..., order, :]), attend(call, value), rtol=0, atol=1e-12
    )


test_shuffling_keys_and_values_together_changes_nothing.wanted = in_double  # type: ignore[attr-defined]


def test_the_order_of_heads_only_permutes(case: Case) -> None:
    call, value = case.build()
    order = torch.tensor([2, 0, 3, 1])
    if call.groups > 1 or any(p.ndim > 1 for p in call.score.parameters()) or case.mask in ("keep",):
        return  # a head has its own weights, keys or mask there: permuting would mean permuting those too
    bias = None if call.bias is None else call.bias.dense(call.query.shape[-2], call.key.shape[-2])
    if bias is not None:
        bias = bias if bias.ndim == 2 else bias.expand(1, *bias.shape[-3:])[:, order]
    permuted = Call(
        call.query[:, order],
        call.key[:, order],
        call.mask,
        None if bias is None else TensorBias(bias),
        call.score,
    )
    torch.testing.assert_close(
        attend(permuted, value[:, order]), attend(call, value)[:, order], rtol=0, atol=1e-12
    )


test_the_order_of_heads_only_permutes.wanted = (  # type: ignore[attr-defined]
    lambda case: in_double(case) and not case.grouped and case.score in ("dot", "scaled", "cosine")
)


def test_permuting_the_heads_of_every_projection_changes_nothing() -> None:
    attention = MultiHeadAttention(12, 3, sizes=HeadSizes(key_width=5, value_width=2)).double()
    x = torch.randn(2, 7, 12, dtype=torch.float64)
    expected = attention(x)
    order = torch.tensor([2, 0, 1])
    with torch.no_grad():
        linear: nn.Linear = attention.input.all
        for part in (linear.weight, linear.bias):
            pieces = part.split([15, 15, 6])
            part.copy_(torch.cat([p.unflatten(0, (3, -1))[order].flatten(0, 1) for p in pieces]))
        columns = attention.output.weight.unflatten(1, (3, -1))[:, order].flatten(1, 2)
        attention.output.weight.copy_(columns)
    torch.testing.assert_close(attention(x), expected, rtol=0, atol=1e-12)
