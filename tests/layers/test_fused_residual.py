"""Sums with a norm after them in one kernel, against the plain module."""

import pytest
import torch
from torch import nn

from regard.attention.kernels.native import kernels
from regard.errors import RegardError
from regard.layers.fused_residual import FusedResidual, obstacle
from regard.layers.residual import Residual, after, before

built = pytest.mark.skipif(kernels() is None, reason="the C kernels are not built")


@built
@pytest.mark.parametrize("shape", [(2, 3, 37), (1, 37), (0, 37), (5, 1, 37)])
def test_it_gives_what_the_plain_module_gives(shape: tuple[int, ...]) -> None:
    plain, x, layer = Residual(37, placement=after).eval(), torch.randn(shape), nn.Linear(37, 37)
    nn.init.normal_(plain.norm.weight), nn.init.normal_(plain.norm.bias)
    fused = FusedResidual(plain, kernels())
    with torch.no_grad():
        torch.testing.assert_close(fused(x, layer), plain(x, layer), rtol=0, atol=3e-6)
    heard: list[int] = []
    fused.norm.register_forward_hook(lambda *_: heard.append(1))
    with torch.no_grad():
        fused(x, layer)
    assert heard  # the norm is called as a module


@built
def test_gradients_training_and_other_dtypes_are_refused() -> None:
    fused, x = FusedResidual(Residual(8, placement=after), kernels()), torch.randn(2, 8)
    with pytest.raises(RegardError, match="gives no gradients"):
        fused(x, nn.Linear(8, 8))
    with pytest.raises(RegardError, match=r"optimised for torch.float32 on cpu, and given torch.float64"):
        fused(x.double(), lambda y: y)
    with pytest.raises(RegardError, match="cannot be trained"):
        fused.train()(x, lambda y: y)


def test_what_cannot_be_fused_is_said() -> None:
    found = kernels()
    assert "does not follow" in str(obstacle(Residual(8, placement=before), found))
    assert "RMSNorm" in str(obstacle(Residual(8, placement=after, norm=nn.RMSNorm), found))
    assert "no LayerNorm" in str(
        obstacle(
            Residual(8, placement=after, norm=lambda n: nn.LayerNorm(n, elementwise_affine=False)), found
        )
    )
    assert "not built" in str(obstacle(Residual(8, placement=after), None))
