"""A linear map of a few rows, against torch in float64: on a GPU, or by Triton's interpreter."""

import pytest
import torch
from torch.nn import functional as F

pytestmark = pytest.mark.triton

TYPES = [(torch.float32, 5e-6), (torch.float16, 8e-3)]


@pytest.mark.parametrize(("rows", "width", "outputs"), [(5, 100, 70), (33, 512, 600), (1, 24, 3)])
@pytest.mark.parametrize(("dtype", "error"), TYPES)
@pytest.mark.parametrize("activation", ["", "relu", "gelu"])
def test_it_is_a_linear_map_and_an_activation(
    rows: int, width: int, outputs: int, dtype: torch.dtype, error: float, activation: str
) -> None:
    from regard.layers.kernels.narrow import narrow

    x, bias = torch.randn(rows, width).to(dtype), torch.randn(outputs).to(dtype)
    weight = (torch.randn(outputs, width) / width**0.5).to(dtype)
    found = narrow(x, weight, bias, activation=activation)
    wanted = F.linear(x.double(), weight.double(), bias.double())
    wanted = {"": wanted, "relu": F.relu(wanted), "gelu": F.gelu(wanted)}[activation]
    assert found.dtype == dtype
    assert (found.double() - wanted).abs().max() < error


@pytest.mark.parametrize("width", [2048, 1100, 48])
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize(("dtype", "error"), TYPES)
def test_a_wide_one_is_a_sum(width: int, biased: bool, dtype: torch.dtype, error: float) -> None:
    from regard.layers.kernels.narrow import narrow_sums

    x, weight = torch.randn(19, width).to(dtype), (torch.randn(37, width) / width**0.5).to(dtype)
    bias = torch.randn(37).to(dtype) if biased else None
    found = narrow_sums(x, weight, bias)
    wanted = F.linear(x.double(), weight.double(), None if bias is None else bias.double())
    assert found.dtype == torch.float32
    assert (found.double().sum(0) - wanted).abs().max() < error


def test_nan_stays_in_its_row() -> None:
    from regard.layers.kernels.narrow import narrow

    x, weight = torch.randn(6, 32), torch.randn(5, 32)
    clean = narrow(x, weight, activation="relu")
    x[2, 7] = torch.nan
    found = narrow(x, weight, activation="relu")
    assert found[2].isnan().all()
    assert torch.equal(found[[0, 1, 3, 4, 5]], clean[[0, 1, 3, 4, 5]])
