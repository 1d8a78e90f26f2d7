"""Sums down columns, against torch in float64: on a GPU, or by Triton's interpreter."""

import pytest
import torch

pytestmark = pytest.mark.triton


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1, 1), (700, 3), (130, 65), (2, 300, 70), (5, 129)])
def test_every_row_counts_once(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    from regard.attention.kernels.columns import column_sums

    x = torch.randn(shape).to(dtype)
    found, right = column_sums(x), x.double().sum(-2)
    assert found.dtype == torch.float32
    assert found.shape == right.shape
    torch.testing.assert_close(found.double(), right, rtol=1e-5, atol=1e-4)


def test_a_part_of_a_wider_matrix_is_summed_where_it_lies() -> None:
    from regard.attention.kernels.columns import column_sums

    x = torch.randn(200, 90)
    for part in (x[:, 10:50], x.t()):
        torch.testing.assert_close(column_sums(part), part.sum(0), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("shape", [(700, 3), (130, 65)])
def test_a_gate_lets_through_what_is_above_zero_and_that_is_summed(shape: tuple[int, int]) -> None:
    from regard.attention.kernels.columns import gated_sums

    x, gate = (torch.randn(shape).to(torch.bfloat16) for _ in range(2))
    gate = gate.relu()
    gated, sums = gated_sums(x, gate)
    right = torch.where(gate > 0, x, 0.0)
    assert torch.equal(gated, right)
    torch.testing.assert_close(sums.double(), right.double().sum(0), rtol=1e-5, atol=1e-4)
