"""Modules for mixed precision against float64. Linear maps need a GPU; residuals a GPU, or Triton's interpreter."""

import pytest
import torch
from torch import nn

from regard.layers.blocks import Dropout, Residual, after
from regard.layers.mixed_precision import (
    AddedDropout,
    ForkedNorm,
    MixedLinear,
    MixedNorm,
    MixedResidual,
    RectifiedLinear,
    become,
    norm_obstacle,
    residual_obstacle,
    weight_obstacle,
)


@pytest.mark.gpu
@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_are_those_of_float64_within_the_rounding_of_inputs(
    dtype: torch.dtype, bias: bool, relu: bool
) -> None:
    if relu and not bias:
        pytest.skip("the product that rectifies adds a bias")
    layer = nn.Linear(48, 72, bias=bias).cuda()
    x = torch.randn(3, 50, 48, device="cuda").to(dtype).requires_grad_()
    slope = torch.randn(3, 50, 72, device="cuda")
    become(layer, RectifiedLinear if relu else MixedLinear, torch.bfloat16)
    out = layer(x)
    assert out.dtype == torch.bfloat16
    weights = list(layer.parameters())
    found = torch.autograd.grad((out.float() * slope).sum(), [x, *weights])
    become(layer, nn.Linear)
    exact, given = layer.double(), x.detach().double().requires_grad_()
    wanted = exact(given) * (out > 0 if relu else 1)  # where a number is rounded to 0 it has no slope
    assert (out.double() - wanted).norm() < 1e-2 * wanted.norm()
    right = torch.autograd.grad((wanted * slope).sum(), [given, *exact.parameters()])
    for mine, other in zip(found, right, strict=True):
        assert (mine.double() - other).norm() < 1e-2 * other.norm()
    assert [part.dtype for part in found] == [dtype, *[torch.float32] * len(weights)]


@pytest.mark.parametrize("kind", [MixedLinear, RectifiedLinear])
def test_of_nothing_a_linear_map_is_nothing_in_its_precision(kind: type[nn.Linear]) -> None:
    layer = nn.Linear(3, 5)
    become(layer, kind, torch.bfloat16)
    out = layer(torch.randn(0, 3))
    assert (out.shape, out.dtype) == ((0, 5), torch.bfloat16)
    out.sum().backward()
    assert layer.weight.grad is not None


def test_only_the_class_of_a_module_changes_and_it_can_be_given_back() -> None:
    layer = nn.Linear(3, 5)
    weight, before = layer.weight, dict(layer.__dict__)
    become(layer, MixedLinear, torch.bfloat16)
    assert isinstance(layer, nn.Linear)
    assert layer.weight is weight
    assert repr(layer) == "MixedLinear(in_features=3, out_features=5, bias=True)"
    become(layer, nn.Linear)
    assert type(layer) is nn.Linear
    assert layer.__dict__ == before


@pytest.mark.triton
@pytest.mark.parametrize("rows", [7, 0])
def test_a_residual_and_its_gradients_are_those_of_float64(rows: int) -> None:
    residual, x = Residual(24), torch.randn(2, rows, 24).requires_grad_()
    nn.init.normal_(residual.norm.weight)
    slope, w = torch.randn(2, rows, 24), torch.randn(24, 24)
    seen = []

    def layer(y: torch.Tensor) -> torch.Tensor:
        seen.append(y.dtype)
        return (y.float() @ w).to(y.dtype)

    for part, kind in (
        (residual, MixedResidual),
        (residual.norm, ForkedNorm),
        (residual.dropout, AddedDropout),
    ):
        become(part, kind, torch.bfloat16)
    out = residual(x, layer)
    assert (seen, out.dtype) == ([torch.bfloat16], torch.float32)
    found = torch.autograd.grad((out * slope).sum(), [x, residual.norm.weight, residual.norm.bias])
    for part, plain in ((residual, Residual), (residual.norm, nn.LayerNorm), (residual.dropout, Dropout)):
        become(part, plain)
    exact, given = residual.double(), x.detach().double().requires_grad_()
    wanted = exact(given, lambda y: y @ w.double())
    right = torch.autograd.grad((wanted * slope).sum(), [given, exact.norm.weight, exact.norm.bias])
    assert (out - wanted).norm() <= 1e-2 * wanted.norm()
    for mine, other in zip(found, right, strict=True):
        assert (mine - other).norm() <= 1e-2 * other.norm()


@pytest.mark.triton
def test_a_norm_that_products_read_is_written_in_16_bits() -> None:
    norm, x = nn.LayerNorm(24), torch.randn(5, 24)
    wanted = norm(x)
    become(norm, MixedNorm, torch.bfloat16)
    out = norm(x)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), wanted, rtol=1e-2, atol=1e-2)


def test_what_no_kernel_takes_is_named() -> None:
    assert residual_obstacle(Residual(8, placement=after)) == "its norm is not before the layer"
    assert "stochastic depth" in str(residual_obstacle(Residual(8, skip=0.5)))
    assert "RMSNorm" in str(residual_obstacle(Residual(8, norm=nn.RMSNorm)))
    assert "no LayerNorm with weight and bias" in str(norm_obstacle(nn.LayerNorm(8, bias=False)))
    assert "at most 8192 features" in str(norm_obstacle(nn.LayerNorm((2, 4))))
    assert weight_obstacle(torch.zeros(2, 2, device="cpu")) == "torch's autocast computes it on a CPU"
