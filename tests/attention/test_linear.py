"""Linear maps in mixed precision, against float64. Their gradients need a GPU; elsewhere they are torch's."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard.attention.linear import applied, linear, rectified


def test_elsewhere_they_are_torchs() -> None:
    layer, x = nn.Linear(3, 5), torch.randn(2, 4, 3)
    assert torch.equal(linear(x, layer.weight, layer.bias), F.linear(x, layer.weight, layer.bias))
    assert torch.equal(applied(layer, x), layer(x))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(applied(layer, x), layer(x))
    assert torch.equal(rectified(layer, x), layer(x).relu())
    assert applied(nn.Identity(), x) is x
    seen: list[torch.Tensor] = []
    layer.register_forward_hook(lambda *given: seen.append(given[2]))
    applied(layer, x)
    assert len(seen) == 1


@pytest.mark.gpu
@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_are_those_of_float64_within_the_rounding_of_inputs(
    dtype: torch.dtype, bias: bool, relu: bool
) -> None:
    layer = nn.Linear(48, 72, bias=bias).cuda()
    x = torch.randn(3, 50, 48, device="cuda").to(dtype).requires_grad_()
    slope = torch.randn(3, 50, 72, device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        out = (rectified if relu else applied)(layer, x)
    assert out.dtype == torch.bfloat16
    weights = list(layer.parameters())
    found = torch.autograd.grad((out.float() * slope).sum(), [x, *weights])
    exact, given = layer.double(), x.detach().double().requires_grad_()
    wanted = exact(given) * (out > 0 if relu else 1)  # where a number is rounded to 0 it has no slope
    assert (out.double() - wanted).norm() < 1e-2 * wanted.norm()
    right = torch.autograd.grad((wanted * slope).sum(), [given, *exact.parameters()])
    for mine, other in zip(found, right, strict=True):
        assert (mine.double() - other).norm() < 1e-2 * other.norm()
    assert [part.dtype for part in found] == [dtype, *[torch.float32] * len(weights)]
