"""A linear map of a few rows with what stands around it, against torch in float64: on a GPU, or by Triton's interpreter."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

pytestmark = pytest.mark.triton

TYPES = [(torch.float32, 5e-6), (torch.float16, 8e-3)]


def numbers(*sizes: int, dtype: torch.dtype) -> Tensor:
    return (torch.randn(*sizes) / sizes[-1] ** 0.5).to(dtype)


@pytest.mark.parametrize(("rows", "width", "outputs"), [(5, 100, 70), (33, 512, 600), (1, 24, 3)])
@pytest.mark.parametrize(("dtype", "error"), TYPES)
@pytest.mark.parametrize("activation", ["", "relu", "gelu"])
def test_a_norm_goes_before_and_what_it_made_is_kept(
    rows: int, width: int, outputs: int, dtype: torch.dtype, error: float, activation: str
) -> None:
    from regard.layers.kernels.narrow import narrow

    norm = nn.LayerNorm(width)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    norm = norm.to(dtype)
    x = torch.randn(rows, width).to(dtype) + 3
    weight, bias = numbers(outputs, width, dtype=dtype), torch.randn(outputs).to(dtype)
    entered = torch.full_like(x, torch.nan)
    with torch.no_grad():
        found = narrow(x, weight, bias, norm=norm, activation=activation, entered=entered)
        normal = norm.double()(x.double())
        wanted = F.linear(normal, weight.double(), bias.double())
    wanted = {"": wanted, "relu": F.relu(wanted), "gelu": F.gelu(wanted)}[activation]
    assert (entered.double() - normal).abs().max() < error
    assert (found.double() - wanted).abs().max() < error


@pytest.mark.parametrize("width", [2048, 2500, 48])
@pytest.mark.parametrize(("dtype", "error"), TYPES)
def test_what_goes_around_is_added(width: int, dtype: torch.dtype, error: float) -> None:
    from regard.layers.kernels.narrow import narrow

    x, weight, around = torch.randn(19, width), numbers(37, width, dtype=dtype), torch.randn(19, 37)
    x, around = x.to(dtype), around.to(dtype)
    found = narrow(x, weight, around=around)
    wanted = F.linear(x.double(), weight.double()) + around.double()
    assert (found.double() - wanted).abs().max() < error


def test_nan_stays_in_its_row() -> None:
    from regard.layers.kernels.narrow import narrow

    norm = nn.LayerNorm(32).requires_grad_(False)
    x, weight = torch.randn(6, 32), torch.randn(5, 32)
    clean = narrow(x, weight, norm=norm, activation="relu")
    x[2, 7] = torch.nan
    found = narrow(x, weight, norm=norm, activation="relu")
    assert found[2].isnan().all()
    assert torch.equal(found[[0, 1, 3, 4, 5]], clean[[0, 1, 3, 4, 5]])
