"""A bias that learns, on a GPU: output and gradients against weights written out in float64."""

import pytest
import torch
from torch import Tensor

from regard import (
    Additive,
    Call,
    Mask,
    RelativeBuckets,
    TensorBias,
    attend,
    causal,
    explain,
    lengths,
    weigh,
    window,
)
from regard.attention.biases import Bias

pytestmark = pytest.mark.gpu


def masks() -> dict[str, Mask | None]:
    n = torch.tensor([37, 20, 0], device="cuda")
    return {
        "none": None,
        "causal": causal(),
        "lengths": lengths(n),
        "window": window(5) & lengths(n, padded="left"),
    }


def drawn(length: int, kv_heads: int, width: int, value_width: int, dtype: torch.dtype) -> list[Tensor]:
    sizes = [(4, width), (kv_heads, width), (kv_heads, value_width)]
    return [torch.randn(3, heads, length, wide, device="cuda", dtype=dtype) for heads, wide in sizes]


def results(
    parts: list[Tensor], mask: Mask | None, bias: Bias, weight: Tensor, *, exact: bool
) -> list[Tensor]:
    learned = [part.clone().requires_grad_() for part in parts]
    query, key, value = learned
    if exact:
        mixed = weigh(query, key, mask, bias=bias) @ value.repeat_interleave(4 // key.shape[1], 1)
    else:
        mixed = attend(query, key, value, mask, bias=bias)
    slope = torch.randn(mixed.shape, generator=torch.Generator().manual_seed(5)).to(mixed)
    return [mixed.detach(), *torch.autograd.grad(mixed, [*learned, weight], slope)]


@pytest.mark.parametrize("mask", ["none", "causal", "lengths", "window"])
@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 1e-3), (torch.bfloat16, 0.25)], ids=str)
@pytest.mark.parametrize("sizes", [(37, 4, 16, 16), (37, 2, 9, 5), (48, 4, 64, 64)], ids=str)
@pytest.mark.parametrize("kind", ["buckets", "tensor", "tensor of a batch"])
def test_output_and_gradients_are_those_of_the_equation(
    mask: str, dtype: torch.dtype, error: float, sizes: tuple[int, int, int, int], kind: str
) -> None:
    parts = drawn(*sizes, dtype)
    wide = [part.double() for part in parts]
    length = sizes[0]
    if kind == "buckets":
        bias = RelativeBuckets(4, buckets=8, far=16).cuda().to(dtype)
        other = RelativeBuckets(4, buckets=8, far=16).cuda().double()
        other.load_state_dict(bias.state_dict())
        pairs = (bias, bias.table), (other, other.table)
    else:
        shape = (length, length) if kind == "tensor" else (3, 4, length, length)
        weight = torch.randn(shape, device="cuda", dtype=dtype, requires_grad=True)
        truth = weight.detach().double().requires_grad_()
        pairs = (TensorBias(weight), weight), (TensorBias(truth), truth)
    chosen = masks()[mask]
    assert explain(Call(*parts[:2], chosen, pairs[0][0])).choice.kernel == "fused"
    found = results(parts, chosen, *pairs[0], exact=False)
    right = results(wide, chosen, *pairs[1], exact=True)
    for mine, other in zip(found, right, strict=True):
        # A gradient of the bias is a sum over the batch, so its error grows with its size.
        torch.testing.assert_close(
            mine.double(), other, rtol=error / 4, atol=error * max(1, other.abs().max().item() / 8)
        )


def test_the_bias_may_be_all_that_learns() -> None:
    query, key, value = drawn(37, 4, 16, 16, torch.float32)
    weight = torch.randn(4, 37, 37, device="cuda", requires_grad=True)
    attend(query, key, value, causal(), bias=TensorBias(weight[None])).sum().backward()
    found = weight.grad
    truth = weight.detach().double().requires_grad_()
    (
        weigh(query.double(), key.double(), causal(), bias=TensorBias(truth[None])) @ value.double()
    ).sum().backward()
    assert found is not None
    torch.testing.assert_close(found.double(), truth.grad, rtol=1e-3, atol=1e-4)


def test_what_it_does_not_take_keeps_its_weights_in_memory() -> None:
    query, key, value = drawn(37, 4, 16, 16, torch.float32)
    weight = torch.randn(37, 37, device="cuda", requires_grad=True)
    for call in (
        Call(query.double(), key.double(), None, TensorBias(weight.double())),
        Call(query, key, None, TensorBias(weight), Additive(16, 16, hidden=4, heads=4).cuda()),
    ):
        assert explain(call).choice.kernel == "written"
        attend(call, value.to(call.query)).sum().backward()
        assert weight.grad is not None
        weight.grad = None
