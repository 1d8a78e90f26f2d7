"""Linear maps packed for the CPU, held against their arithmetic written out."""

import pytest
import torch
from torch.nn import functional as F

from regard.errors import RegardError
from regard.layers.lowered import Bfloat16Linear, Float32Linear, Int8Linear


def maps(*, out: int = 37, into: int = 53) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(out, into), torch.randn(out)


def in_integers(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Σ q_i Q_i with q = round(127 x / max |x|) and Q = round(127 w / max |w|), scaled back; in float64."""
    x, weight = x.double(), weight.double()
    most, wide = x.abs().amax(-1, keepdim=True), weight.abs().amax(-1)
    rows, whole = (127 * x / most).round().long(), (127 * weight / wide[:, None]).round().long()
    summed = torch.stack([(row * whole).sum(-1) for row in rows])
    return summed.double() * (most / 127) * (wide / 127) + bias.double()


@pytest.mark.parametrize("rows", [1, 2, 7, 64])
def test_int8_is_the_arithmetic_of_integers(rows: int) -> None:
    weight, bias = maps()
    x = torch.randn(rows, 53) * torch.logspace(-3, 3, rows)[:, None]  # rows of very different sizes
    expected = in_integers(x, weight, bias)
    torch.testing.assert_close(Int8Linear(weight, bias)(x).double(), expected, rtol=1e-5, atol=1e-5)


def test_int8_is_near_the_map_itself() -> None:
    weight, bias = maps(out=128, into=512)
    x = torch.randn(9, 512)
    exact = F.linear(x, weight, bias)
    error = (Int8Linear(weight, bias)(x) - exact).norm() / exact.norm()
    assert error < 0.015  # two roundings to 1/254 of the largest, which is three to four deviations


@pytest.mark.parametrize(("out", "into"), [(37, 53), (64, 512), (512, 2048), (3000, 64)])
def test_a_row_in_int8_does_not_depend_on_its_neighbours(out: int, into: int) -> None:
    lowered = Int8Linear(*maps(out=out, into=into))
    x = torch.randn(67, into)
    x[5] *= 1e6  # whoever shares a scale with it loses everything
    together = lowered(x)
    for row in range(0, 67, 6):
        assert torch.equal(lowered(x[row : row + 1])[0], together[row])
    assert torch.equal(lowered(x[3:40]), together[3:40])


def test_a_row_of_zeros_gives_the_bias_and_spoils_nothing() -> None:
    weight, bias = maps()
    x = torch.randn(4, 53)
    x[2] = 0
    for lowered in (Int8Linear(weight, bias), Bfloat16Linear(weight, bias)):
        assert torch.equal(lowered(x)[2], bias)
        assert torch.equal(lowered(x[2:3])[0], bias)
    assert torch.equal(Int8Linear(weight, None)(x)[2], torch.zeros(37))


def test_an_output_whose_weights_are_zero_is_zero() -> None:
    weight, _ = maps()
    weight[4] = 0
    assert torch.equal(Int8Linear(weight, None)(torch.randn(3, 53))[:, 4], torch.zeros(3))


@pytest.mark.parametrize("shape", [(53,), (1, 53), (3, 53), (2, 5, 53), (0, 53)])
@pytest.mark.parametrize("kind", [Float32Linear, Bfloat16Linear, Int8Linear])
def test_any_axes_may_come_before_the_features(shape: tuple[int, ...], kind: type) -> None:
    weight, bias = maps()
    x = torch.randn(shape)
    tolerance = {Float32Linear: 1e-4, Bfloat16Linear: 0.3, Int8Linear: 0.5}[kind]
    torch.testing.assert_close(kind(weight, bias)(x), F.linear(x, weight, bias), rtol=0, atol=tolerance)


def test_bf16_rounds_what_comes_in_and_what_goes_out() -> None:
    weight, bias = maps()
    x = torch.randn(6, 53)
    exact = F.linear(x.bfloat16().double(), weight.bfloat16().double())
    found = Bfloat16Linear(weight, bias)(x) - bias
    torch.testing.assert_close(found.double(), exact, rtol=2**-8, atol=1e-4)


def test_weights_that_no_integer_stands_for_are_refused() -> None:
    weight, bias = maps()
    weight[3, 3] = torch.nan
    with pytest.raises(RegardError, match="NaN"):
        Int8Linear(weight, bias)
