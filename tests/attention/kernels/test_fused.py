"""torch's fused kernels take whatever layout a projection leaves."""

import pytest
import torch

from regard import attend, weigh

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_parts_of_one_projection_may_have_any_width(device: str, dtype: torch.dtype) -> None:
    """Keys of width 16 beside values of width 2: rows begin at multiples of 18 numbers, and the values at the 17th."""
    wide = torch.randn(3, 2, 11, 18, device=device).to(dtype).requires_grad_()
    query = torch.randn(3, 2, 7, 16, device=device).to(dtype)
    key, value = wide.split([16, 2], dim=-1)
    mixed = attend(query, key, value)
    mixed.float().sum().backward()
    exact = weigh(query.double(), key.double()) @ value.double()
    torch.testing.assert_close(mixed.double(), exact, rtol=0, atol={torch.float32: 1e-5}.get(dtype, 2e-2))
    assert wide.grad is not None
    assert wide.grad.isfinite().all()
