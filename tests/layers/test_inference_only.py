"""Modules optimised for inference: linear maps with packed weights, and sums with their norms."""

import pytest
import torch
from hardware import BF16, needs_bf16
from torch import nn
from torch.nn import functional as F

from regard.attention.kernels.native import LEVELS, Kernels, kernels_for
from regard.attention.kernels.native import kernels as best_kernels
from regard.errors import RegardError
from regard.layers.blocks import Residual, after, before
from regard.layers.inference_only import (
    Bfloat16Linear,
    Float32Linear,
    FusedResidual,
    Int8Linear,
    PackedLinear,
    obstacle,
)

KINDS = [Float32Linear, pytest.param(Bfloat16Linear, marks=needs_bf16), Int8Linear]


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
    for kind in (Int8Linear, Bfloat16Linear) if BF16 else (Int8Linear,):
        lowered = kind(weight, bias)
        assert torch.equal(lowered(x)[2], bias)
        assert torch.equal(lowered(x[2:3])[0], bias)
    assert torch.equal(Int8Linear(weight, None)(x)[2], torch.zeros(37))


def test_an_output_whose_weights_are_zero_is_zero() -> None:
    weight, _ = maps()
    weight[4] = 0
    assert torch.equal(Int8Linear(weight, None)(torch.randn(3, 53))[:, 4], torch.zeros(3))


@pytest.mark.parametrize("shape", [(53,), (1, 53), (3, 53), (2, 5, 53), (0, 53)])
@pytest.mark.parametrize("kind", KINDS)
def test_any_axes_may_come_before_the_features(shape: tuple[int, ...], kind: type) -> None:
    weight, bias = maps()
    x = torch.randn(shape)
    tolerance = {Float32Linear: 1e-4, Bfloat16Linear: 0.3, Int8Linear: 0.5}[kind]
    torch.testing.assert_close(kind(weight, bias)(x), F.linear(x, weight, bias), rtol=0, atol=tolerance)


@needs_bf16
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


@pytest.fixture(params=[*LEVELS, "avx512vnni, multiplied by oneDNN"])
def kernels(request: pytest.FixtureRequest) -> Kernels:
    """The C kernels for each instruction set of this CPU; the last also without a product of their own."""
    level, _, other = request.param.partition(", ")
    found = kernels_for(level)
    if found is None:
        pytest.skip("the C kernels are not built, or this CPU does not have the instructions")
    found.multiplies_int8 = found.multiplies_int8 and not other
    return found


@pytest.mark.parametrize("rows", [0, 1, 2, 7, 12, 13, 129])
@pytest.mark.parametrize(("out", "into"), [(48, 33), (70, 512), (512, 96)])
@pytest.mark.parametrize("affine", [True, False])
def test_the_c_kernels_give_the_bits_of_torch(
    kernels: Kernels, rows: int, out: int, into: int, affine: bool
) -> None:
    weight, bias = torch.randn(out, into), torch.randn(out) if affine else None
    x = torch.randn(rows, into) * torch.randn(rows, 1).exp()
    if rows > 2:
        x[rows // 2] = 0
    wanted = Int8Linear(weight, bias)(x)
    linear = Int8Linear(weight, bias, kernels)
    assert torch.equal(linear(x), wanted)
    every_other = torch.stack([x, -x], dim=-1)[..., 0]
    assert torch.equal(linear(every_other), wanted)


def test_the_largest_whole_numbers_do_not_overflow(kernels: Kernels) -> None:
    width = 131072  # the sum is just below 2³¹, and what leads to it is above
    linear = Int8Linear(torch.ones(33, width), None, kernels)
    assert torch.allclose(linear(torch.ones(2, width)), torch.full((2, 33), float(width)))


@pytest.mark.parametrize("rows", [1, 6])
@pytest.mark.parametrize("in_c", [True, False])
def test_a_map_that_rectifies_maps_what_is_above_zero(kernels: Kernels, rows: int, in_c: bool) -> None:
    linear = Int8Linear(torch.randn(40, 70), torch.randn(40), kernels if in_c else None)
    x = torch.randn(rows, 70)
    x[0] = -x[0].abs() * 100  # of which nothing is left
    wanted = linear(x.clamp_min(0))
    linear.rectifies = True
    assert torch.equal(linear(x), wanted)
    assert not torch.equal(linear(-x), wanted)


@pytest.mark.parametrize("rectifies", [True, False])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_nan_spoils_its_own_row_alone(kernels: Kernels, rectifies: bool, sign: float) -> None:
    linear, x = Int8Linear(torch.randn(20, 33), torch.randn(20), kernels), torch.randn(5, 33)
    linear.rectifies = rectifies
    whole = linear(x)
    x[3, 7] = torch.tensor(torch.nan).copysign(torch.tensor(sign))
    spoilt = linear(x)
    assert spoilt[3].isnan().all()
    assert torch.equal(spoilt[[0, 1, 2, 4]], whole[[0, 1, 2, 4]])


@pytest.fixture(params=["avx2", "avx512", "avx512vnni"])
def multiplying(request: pytest.FixtureRequest) -> Kernels:
    """The C kernels for each instruction set that multiplies float32."""
    found = kernels_for(request.param)
    if found is None:
        pytest.skip("the C kernels are not built, or this CPU does not have the instructions")
    assert found.multiplies_float32
    return found


@pytest.mark.parametrize("rows", [0, 1, 2, 5, 6, 7, 12, 13, 67, 129])
@pytest.mark.parametrize(("out", "into"), [(1, 1), (37, 53), (48, 256), (70, 257), (33, 1031), (97, 512)])
@pytest.mark.parametrize("affine", [True, False])
def test_float32_in_c_is_within_the_rounding_of_its_sums(
    multiplying: Kernels, rows: int, out: int, into: int, affine: bool
) -> None:
    weight, bias = torch.randn(out, into), torch.randn(out) * 10 if affine else None
    x = torch.randn(rows, into)
    found = Float32Linear(weight, bias, multiplying)(x).double()
    sizes = F.linear(x.abs().double(), weight.abs().double(), None if bias is None else bias.abs().double())
    roundings = min(into, 256) + into // 256 + 2  # on the longest way of a product into its sum
    exact = F.linear(x.double(), weight.double(), None if bias is None else bias.double())
    assert bool(((found - exact).abs() <= roundings * 2.0**-24 * sizes).all())


@pytest.mark.parametrize(("out", "into"), [(37, 53), (64, 512), (96, 2048), (301, 64)])
def test_a_row_in_float32_does_not_depend_on_its_neighbours(
    multiplying: Kernels, out: int, into: int
) -> None:
    linear, best = (
        Float32Linear(*maps(out=out, into=into), level) for level in (multiplying, best_kernels())
    )
    best.panels = linear.panels
    best.bias = linear.bias
    x = torch.randn(67, into)
    x[5] = torch.nan
    together = linear(x)
    assert together[5].isnan().all()
    for row in (0, 1, 4, 6, 17, 66):
        assert torch.equal(linear(x[row : row + 1])[0], together[row])
    assert torch.equal(linear(x[6:40]), together[6:40])
    assert torch.equal(best(x)[6:], together[6:])  # the same bits on every instruction set


@pytest.mark.parametrize("rows", [1, 14])
def test_float32_that_rectifies_maps_what_is_above_zero(multiplying: Kernels, rows: int) -> None:
    weight, bias = maps(out=40, into=300)
    linear, plain = Float32Linear(weight, bias, multiplying), Float32Linear(weight, bias)
    linear.rectifies = plain.rectifies = True
    x = torch.randn(rows, 300)
    wanted = F.linear(x.clamp_min(0).double(), weight.double(), bias.double())
    for each in (linear, plain):
        torch.testing.assert_close(each(x).double(), wanted, rtol=0, atol=1e-4)
    x[0, 7] = -torch.tensor(torch.nan)
    assert linear(x)[0].isnan().all()


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_and_training_are_refused(kind: type[PackedLinear]) -> None:
    linear, x = kind(torch.randn(5, 7), None), torch.randn(2, 7, requires_grad=True)
    with pytest.raises(RegardError, match=r"gives no gradients.*optimise=False"):
        linear(x)
    with torch.no_grad():
        assert torch.equal(linear(x), linear(x.detach()))
    with pytest.raises(RegardError, match=r"cannot be trained.*optimise=False"):
        linear.train()(x.detach())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_numbers_of_another_width_are_refused(kind: type[PackedLinear], dtype: torch.dtype) -> None:
    """The C kernels would take their bytes for those of float32."""
    linear = kind(torch.randn(5, 7), None, best_kernels())
    with pytest.raises(RegardError, match=r"packed for float32 inputs.*given torch\."):
        linear(torch.randn(2, 7, dtype=dtype))


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(2, 6), (2, 8), (14,), ()])
def test_vectors_of_another_width_are_refused(kind: type[PackedLinear], shape: tuple[int, ...]) -> None:
    linear = kind(torch.randn(5, 7), None, best_kernels())
    with pytest.raises(RegardError, match=r"maps vectors of 7 features"):
        linear(torch.randn(shape))


@pytest.mark.parametrize("kind", [Float32Linear, Int8Linear])
def test_tracing_is_refused(kind: type[PackedLinear]) -> None:
    linear = kind(torch.randn(5, 7), None, best_kernels())
    with pytest.raises(RegardError, match=r"cannot be traced.*optimise=False"):
        torch.jit.trace(linear, torch.randn(2, 7))


built = pytest.mark.skipif(best_kernels() is None, reason="the C kernels are not built")


@built
@pytest.mark.parametrize("shape", [(2, 3, 37), (1, 37), (0, 37), (5, 1, 37)])
def test_it_gives_what_the_plain_module_gives(shape: tuple[int, ...]) -> None:
    plain, x, layer = Residual(37, placement=after).eval(), torch.randn(shape), nn.Linear(37, 37)
    nn.init.normal_(plain.norm.weight), nn.init.normal_(plain.norm.bias)
    fused = FusedResidual(plain, best_kernels())
    with torch.no_grad():
        torch.testing.assert_close(fused(x, layer), plain(x, layer), rtol=0, atol=3e-6)
    heard: list[int] = []
    fused.norm.register_forward_hook(lambda *_: heard.append(1))
    with torch.no_grad():
        fused(x, layer)
    assert heard  # the norm is called as a module


@built
def test_gradients_training_and_other_dtypes_are_refused() -> None:
    fused, x = FusedResidual(Residual(8, placement=after), best_kernels()), torch.randn(2, 8)
    with pytest.raises(RegardError, match="gives no gradients"):
        fused(x, nn.Linear(8, 8))
    with pytest.raises(RegardError, match=r"optimised for torch.float32 on cpu, and given torch.float64"):
        fused(x.double(), lambda y: y)
    with pytest.raises(RegardError, match="cannot be trained"):
        fused.train()(x, lambda y: y)


def test_what_cannot_be_fused_is_said() -> None:
    found = best_kernels()
    assert "does not follow" in str(obstacle(Residual(8, placement=before), found))
    assert "RMSNorm" in str(obstacle(Residual(8, placement=after, norm=nn.RMSNorm), found))
    assert "no LayerNorm" in str(
        obstacle(
            Residual(8, placement=after, norm=lambda n: nn.LayerNorm(n, elementwise_affine=False)), found
        )
    )
    assert "not built" in str(obstacle(Residual(8, placement=after), None))
