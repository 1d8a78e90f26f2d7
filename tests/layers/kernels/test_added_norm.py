"""norm(x + y) in one kernel, against torch in float64: on a GPU, or by Triton's interpreter."""

import pytest
import torch

pytestmark = pytest.mark.triton


@pytest.mark.parametrize("width", [512, 24, 100])
@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 5e-6), (torch.float16, 8e-3)])
def test_a_sum_is_normalised(width: int, dtype: torch.dtype, error: float) -> None:
    from regard.layers.kernels.added_norm import added_norm

    norm = torch.nn.LayerNorm(width)
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    norm = norm.to(dtype)
    x, y = torch.randn(3, 1, width).to(dtype), torch.randn(1, 3, width).to(dtype).transpose(0, 1)
    with torch.no_grad():
        found = added_norm(x, y, norm)
        wanted = norm.double()(x.double() + y.double())
    assert found.shape == x.shape
    assert (found.double() - wanted).abs().max() < error


@pytest.mark.parametrize("count", [1, 4])
def test_several_parts_are_added_and_the_sum_is_kept(count: int) -> None:
    from regard.layers.kernels.added_norm import summed_norm

    norm, x, parts = torch.nn.LayerNorm(100), torch.randn(7, 100).half(), torch.randn(count, 7, 100)
    torch.nn.init.normal_(norm.weight)
    norm, total = norm.half().requires_grad_(False), torch.full_like(x, torch.nan)
    found = summed_norm(x, parts, norm, total=total)
    wanted = x.double() + parts.double().sum(0)
    assert (total.double() - wanted).abs().max() < 8e-3
    assert (found.double() - norm.double()(wanted)).abs().max() < 1e-2
